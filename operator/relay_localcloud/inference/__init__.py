"""The inference API, on its own port: chat completions, messages, models, and the backends of models."""
