"""The login node's entry: `python submit.py JOB.toml [--executor slurm|local] [key=value ...]`."""

import sys

if __name__ == "__main__":
    try:
        from hybridjob.cli import submit_main

        submit_main()
    except KeyboardInterrupt:  # before there is a job to cancel
        sys.exit(130)
