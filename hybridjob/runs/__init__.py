"""The login node's view of runs: which there are, what their folders and Slurm know of them."""
