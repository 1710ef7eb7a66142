"""What a page says after a button did something; only what is here can be said."""

from typing import Final

NOTICES: Final = {
    "advanced": "The clock was moved on, and everything that fell due was done.",
    "clock": "The clock was changed.",
    "node-down": "The node fell silent. What runs on it is interrupted when the grace is over.",
    "node-up": "The node reports again, and what was interrupted on it runs again.",
    "replayed": "The delivery is sent again.",
    "fault-made": "The fault is there; it meets what comes from here on.",
    "fault-removed": "The fault is gone.",
    "faults-removed": "Every fault is gone.",
}
"""By the parameter `done`."""
