"""Reading data: what a job file says of it, and batches out of it."""
