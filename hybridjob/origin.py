"""Where a job comes from: a note that submission puts into the job's folder. Imports no torch."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridjob.jobfile import dump_job
from hybridjob.jobfolder import JobFolder, read_json, write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hybridjob.config import Job


@dataclass(frozen=True, kw_only=True)
class Origin:
    """How a job was submitted.

    executor: slurm or local. resumed_from: the folder of the job that it goes on from, and
    resumed_step the step. sweep: the name of the sweep, and sweep_values what this job of it has.
    """

    executor: str
    submitted: float = field(default_factory=time.time)
    code_folders: Sequence[str] = ()
    resumed_from: str | None = None
    resumed_step: int | None = None
    sweep: str | None = None
    sweep_values: dict[str, Any] = field(default_factory=dict)


def new_contents(job: Job, origin: Origin, checkpoints: Path | None = None) -> Path:
    """Make a hidden folder in the run folder with what the new job's folder is to begin with.

    checkpoints: a folder on the same file system that is moved there. Raises OSError.
    """
    contents = JobFolder(job.run_path / f".contents-{os.getpid()}-{secrets.token_hex(4)}")
    contents.path.mkdir(mode=0o700)
    try:
        write_atomically(contents.job_file, dump_job(job))
        write_atomically(contents.origin, json.dumps(asdict(origin), indent=1) + "\n")
        if checkpoints is not None:
            checkpoints.replace(contents.checkpoints)
    except BaseException:
        shutil.rmtree(contents.path)
        raise
    return contents.path


def read_origin(folder: JobFolder) -> Origin | None:
    """Read the note; None where a job was submitted by hand."""
    values = read_json(folder.origin)
    return None if values is None else Origin(**values)
