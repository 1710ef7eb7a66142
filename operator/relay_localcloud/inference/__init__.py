"""The inference API, on a port of its own: chat completions, messages, models, and the backends behind them."""
