"""The console at `/`: pages rendered by the server, without external files. Its buttons call the control interface."""
