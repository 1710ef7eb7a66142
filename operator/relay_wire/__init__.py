"""The cloud's JSON as pydantic models, one module per noun: requests and answers."""
