"""When an InferenceBatchSchedule starts batches, and the pass that starts them. Only `reconciler` does I/O."""
