"""The process that does a task's work: one for each generation, started by hybridjob.task.

Reads its assignment, a JSON object, from standard input. Exits 0 when the run is complete.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import sys
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import torch

from hybridjob.errors import PeerError
from hybridjob.failures import Failure, describe_error, is_consequence, record_failure
from hybridjob.jobfile import parse_job
from hybridjob.jobfolder import JobFolder
from hybridjob.liveness import MasterWatch
from hybridjob.logs import log_event, set_up_logging
from hybridjob.master import run_master
from hybridjob.meeting import Meeting
from hybridjob.ps import run_server
from hybridjob.rendezvous import leave, meet
from hybridjob.roles import Role, name_of, role_of
from hybridjob.tables import server as remote_server
from hybridjob.trainer import run_trainer
from slurm.placement import read_placement

if TYPE_CHECKING:
    from hybridjob.config import Job, Resources
    from hybridjob.rendezvous import World

logger = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What the task tells its worker."""

    job: dict[str, object]
    folder: str
    generation: int
    parent: int
    local_only: bool


def main() -> NoReturn:
    """Do the work of one task in one generation."""
    assignment = Assignment(**json.load(sys.stdin))
    _die_with(assignment.parent)
    job = parse_job(assignment.job, source="the job file")
    placement = read_placement(os.environ)
    folder = JobFolder(Path(assignment.folder))
    name = name_of(placement.rank, job.layout)
    set_up_logging(name, placement.rank)
    warnings.filterwarnings("ignore", message="You are using a Backend")  # torch's own, in RPC
    failed = threading.Lock()

    def fail(error: BaseException) -> NoReturn:
        failed.acquire()  # only one thread reports; the process ends before it is released
        failure = describe_error(error, rank=placement.rank, role=name, host=placement.host)
        _report_failure(failure, folder.failure(assignment.generation), error)
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
        remote_server.prepare(job, meeting.rank)
        world = meet(meeting, job.network)
        log_event(logger, "all ranks are here", host=placement.host, ranks=job.layout.num_tasks)
        watch = MasterWatch(world, on_loss=fail)
        if world.role is not Role.MASTER:
            watch.start()
        match world.role:
            case Role.MASTER:
                run_master(job, world, folder)
            case Role.PS:
                run_server()
            case Role.TRAINER:
                run_trainer(job, world, folder)
        watch.stop()
        _leave(world)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the others must learn of it
        fail(error)
    _exit(0)


def _leave(world: World) -> None:
    try:
        leave(world)
    except PeerError as error:
        # All is written by now: a peer in a hurry takes nothing from a run that is complete.
        log_event(logger, str(error), logging.WARNING)


def _resources(job: Job, rank: int) -> Resources:
    match role_of(rank, job.layout):
        case Role.TRAINER:
            return job.trainer
        case Role.MASTER if job.master is not None:
            return job.master
        case _:
            return job.ps


def _report_failure(failure: Failure, path: Path, error: BaseException) -> None:
    first = record_failure(path, failure, consequence=is_consequence(error))
    level = logging.ERROR if first else logging.WARNING
    what = "failed" if first else "ends because another rank failed"
    log_event(logger, f"{what}: {failure.message}", level)
    if failure.detail:
        logger.log(level, "%s", failure.detail)


def _die_with(parent: int) -> None:
    """Have the system kill this process when its task ends, however that ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it died before we asked
        _exit(1)


def _exit(code: int) -> NoReturn:
    """End at once: torch's threads may hold the interpreter's orderly end for ever."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
