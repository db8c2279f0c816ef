"""What the tests run in each rank. A module of its own: jobs import it by its name."""

import os
import sys
import time
from pathlib import Path

from slurm.component import Component
from slurm.executor import HetExecutor
from slurm.placement import read_placement


def tell_placement():
    """Say on both streams who we are; return it."""
    place = read_placement(os.environ)
    print(f"rank {place.rank} to stdout", flush=True)
    print(f"rank {place.rank} to stderr", file=sys.stderr, flush=True)
    return {
        "rank": place.rank,
        "component": place.component,
        "component_rank": place.component_rank,
        "host": place.host,
        "master_host": place.master_host,
        "num_tasks": place.num_tasks,
    }


def fail_in_rank(rank):
    """Raise in one rank; the others would stay for minutes."""
    if read_placement(os.environ).rank == rank:
        raise ValueError(f"rank {rank} has had enough")
    time.sleep(600)


def stay(folder):
    """Leave a file named by our rank, then stay until somebody ends us."""
    Path(folder, str(read_placement(os.environ).rank)).touch()
    time.sleep(600)


def meet_in(folder, others):
    """Return once `others` have left their files too: proof of running at the same time."""
    place = read_placement(os.environ)
    Path(folder, f"{place.job_id}-{place.rank}").touch()
    deadline = time.monotonic() + 60
    while len(list(Path(folder).iterdir())) < others:
        if time.monotonic() > deadline:
            raise TimeoutError(f"only {sorted(Path(folder).iterdir())} are here")
        time.sleep(0.05)
    return place.rank


def submit_another(folder):
    """Submit a job from inside this one, wait for it, return what its ranks returned."""
    components = [Component(name="inner", partition="gpu", num_tasks=2)]
    environment = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    executor = HetExecutor(
        Path(folder) / "%j", components=components, job_name="inner", environment=environment
    )
    return executor.submit(tell_placement).results()
