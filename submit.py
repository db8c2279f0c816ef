"""The login node's entry: `python submit.py JOB.toml [--executor slurm|local] [key=value ...]`."""

from hybridjob.cli import submit_main

if __name__ == "__main__":
    submit_main()
