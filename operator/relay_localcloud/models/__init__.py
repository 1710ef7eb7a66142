"""The catalog of models: the built-in ones, and the servers that an organization registered for a model."""
