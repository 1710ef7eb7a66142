"""What makes containers of what the rows want: its interface, and the runtime that only keeps time."""
