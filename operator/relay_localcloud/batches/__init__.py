"""Files and batch jobs of the inference API (section 2, "Batch job"; section 7, "Batch and file endpoints")."""
