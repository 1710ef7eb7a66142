"""When an InferenceBatchSchedule starts batches, and the pass that starts them. Only `flow` does I/O."""
