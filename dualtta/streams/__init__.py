"""How test samples are ordered and grouped into batches, and where adaptation restarts."""
