"""The console at `/`: pages for people, rendered here, with nothing from elsewhere. Its buttons are control calls."""
