"""The control interface, under `/_localcloud`: what no API call can do. It has no authentication (see `access.py`)."""
