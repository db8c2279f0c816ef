"""Trainings that are at work when something happens to them, and their processes."""

import contextlib
from pathlib import Path

from training_run import LONGER, follow, processes_of, submit, write_job

SLOW = ("model.factory=slow_model:factory", "model.options.pause_s=0.03")
ONE_NODE_OF_SERVERS = ("ps.nodes=1", "ps.tasks_per_node=2")


@contextlib.contextmanager
def starting(cluster, folder, eventually, *always):
    """Give what starts a job and waits until it has saved once; cancel in the end what is left."""
    started = []

    def begin(*overrides):
        words = (*LONGER, *SLOW, *always, *overrides)
        run = follow(submit(folder / "run", write_job(folder), *words, cluster=cluster))
        started.append(run)
        eventually(lambda: list(run.folder.glob("checkpoints/step-*")), 180)
        return run

    yield begin
    for run in started:
        cluster.run(["scancel", run.job_id], check=False)
        eventually(lambda run=run: not processes_of(run.folder.parent), 60)


def completes(cluster, run, digest, *, requeues=None, deadline_s=400):
    """Wait for the end of a job; it must be that of one that nothing happened to."""
    cluster.wait_for_state(run.job_id, {"COMPLETED"}, deadline_s)
    assert run.summary["state"] == "completed"
    assert run.summary["state_digest"] == digest
    if requeues is not None:
        assert run.summary["requeues"] == requeues


def worker(run, rank):
    """Give the process id of a rank's worker."""
    (pid,) = (
        pid
        for pid, environment in processes_of(run.folder.parent).items()
        if environment["SLURM_PROCID"] == str(rank) and "hybridjob.worker" in environment["command"]
    )
    return pid


def command_of(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")


def ancestors(pid):
    """List a process and all above it, up to the first."""
    found = []
    while pid > 1:
        found.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found
