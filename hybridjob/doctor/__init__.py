"""What may be wrong before a job is submitted. Imports no torch."""
