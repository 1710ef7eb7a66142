"""Where the cloud may be sent by what organizations name, and the connections that hold to it."""
