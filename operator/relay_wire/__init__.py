"""The cloud's JSON as pydantic models, one module a noun: what is sent and what is received."""
