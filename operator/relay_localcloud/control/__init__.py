"""The control interface, under `/_localcloud`: what no API call can do. Who may use it: `access.py`."""
