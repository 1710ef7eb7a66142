"""GpuModels: the cloud's catalog as objects that people read."""
