"""The process that does a task's work: one for each generation, started by hybridjob.task.

Reads its assignment, a line of JSON, and then orders from standard input. Exits with 0 when the run
is complete, with 75 when it has saved and left as asked, with 1 when it has failed.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import torch

from hybridjob import trace
from hybridjob.assignment import LEFT, WARNINGS, Assignment
from hybridjob.errors import PeerError
from hybridjob.failures import Failure, describe_error, record_failure
from hybridjob.jobfile import parse_job
from hybridjob.jobfolder import JobFolder
from hybridjob.liveness import MasterWatch
from hybridjob.logs import log_event, set_up_logging
from hybridjob.master import run_master
from hybridjob.meeting import Meeting
from hybridjob.orders import Orders, die_with
from hybridjob.ps import run_server
from hybridjob.rendezvous import leave, meet
from hybridjob.roles import Role, name_of, role_of
from hybridjob.tables import server as remote_server
from hybridjob.trainer import run_trainer
from slurm.placement import read_placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from hybridjob.config import Job, Resources

logger = logging.getLogger(__name__)


def main() -> NoReturn:
    """Do the work of one task in one generation."""
    for number in WARNINGS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WARNINGS)
    assignment = Assignment(**json.loads(sys.stdin.readline()))
    die_with(assignment.parent)
    job = parse_job(assignment.job, source="the job file")
    placement = read_placement(os.environ)
    folder = JobFolder(Path(assignment.folder))
    name = name_of(placement.rank, job.layout)
    set_up_logging(name, placement.rank)
    warnings.filterwarnings("ignore", message="You are using a Backend")  # torch's own, in RPC
    reporting = threading.Lock()

    def fail(error: BaseException) -> NoReturn:
        reporting.acquire()  # one thread reports; the process ends before it is released
        failure = describe_error(error, rank=placement.rank, role=name, host=placement.host)
        _report_failure(failure, folder.failure(assignment.generation))
        _exit(1)

    try:
        torch.set_num_threads(_resources(job, placement.rank).cpus_per_task)
        meeting = Meeting(
            rank=placement.rank,
            local_rank=placement.local_rank,
            layout=job.layout,
            host=placement.host,
            master_host=placement.master_host,
            file=folder.endpoint(assignment.generation),
            local_only=assignment.local_only,
        )
        code = _work(job, meeting, folder, assignment.generation, fail)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the others must learn of it
        fail(error)
    _exit(code)


def _work(
    job: Job,
    meeting: Meeting,
    folder: JobFolder,
    generation: str,
    fail: Callable[[BaseException], NoReturn],
) -> int:
    """Meet the others, play the role, leave. Returns the exit code."""
    orders = Orders()
    orders.start()
    remote_server.prepare(job, meeting.rank)
    trace.prepare(job.training.trace_from, job.training.trace_steps)
    world = meet(meeting, job.network)
    log_event(logger, "all ranks are here", host=meeting.host, ranks=job.layout.num_tasks)
    orders.world = world
    watch = MasterWatch(world, on_loss=fail)
    if world.role is not Role.MASTER:
        watch.start()
    complete = True
    match world.role:
        case Role.MASTER:
            complete = run_master(job, world, folder, generation)
        case Role.PS:
            complete = run_server()
        case Role.TRAINER:
            complete = run_trainer(job, world, folder)
    watch.stop()
    try:
        leave(world)
    except PeerError as error:
        # All is written by now: a peer in a hurry takes nothing from a run that is complete.
        log_event(logger, str(error), logging.WARNING)
    return 0 if complete else LEFT


def _resources(job: Job, rank: int) -> Resources:
    match role_of(rank, job.layout):
        case Role.TRAINER:
            return job.trainer
        case Role.MASTER if job.master is not None:
            return job.master
        case _:
            return job.ps


def _report_failure(failure: Failure, path: Path) -> None:
    try:
        first = record_failure(path, failure)
    except OSError as error:
        log_event(logger, f"cannot write {path}: {error.strerror}", logging.WARNING)
        first = True
    level = logging.ERROR if first else logging.WARNING
    what = "failed" if first else "ends because another rank failed"
    log_event(logger, f"{what}: {failure.message}", level)
    if failure.detail:
        logger.log(level, "%s", failure.detail)


def _exit(code: int) -> NoReturn:
    """End at once: torch's threads may hold the interpreter's orderly end for ever."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
