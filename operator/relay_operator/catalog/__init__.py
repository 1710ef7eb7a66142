"""GpuModels: the cloud's catalog as objects for people to read."""
