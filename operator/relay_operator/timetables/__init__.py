"""Times that people write as cron does, in a time zone. Pure."""
