"""The control interface, under `/_localcloud`: what the API cannot do. `access.py` says who may use it."""
