"""Reconciles InferenceBatches: long work beside the queue, the create protocol for files and batches."""
