"""Times in cron syntax, in a time zone. Pure."""
