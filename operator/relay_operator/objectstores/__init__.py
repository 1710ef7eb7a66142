"""Where batches read and write: buckets, web servers and allowed folders, behind one small interface."""
