"""`hybridjob doctor JOB.toml`. Imports no torch."""
