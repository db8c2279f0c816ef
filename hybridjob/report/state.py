"""What became of a job: its own word, else the local controller's, else Slurm's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hybridjob.jobfolder import read_json
from slurm.command import CommandResult, run_command
from slurm.local_process import read_state
from slurm.query import query_states

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hybridjob.jobfolder import JobFolder

_TIMEOUT_S = 3.0


def state_of(folder: JobFolder) -> str:
    """Say it in one lower-case word, such as completed, failed, running, or unknown."""
    try:
        summary = read_json(folder.summary)
    except (OSError, ValueError):
        summary = None  # it is told where the report lists what it could not read
    if summary is not None and "state" in summary:
        return str(summary["state"])
    job_id = folder.path.name
    local = folder.path / f"{job_id}_state.json"
    if local.exists():
        return read_state(job_id, local).state.value.lower()
    if not is_slurm_job(folder):
        return "unknown"
    return query_states([job_id], run=_impatiently)[job_id].value.lower()


def is_slurm_job(folder: JobFolder) -> bool:
    """Tell whether Slurm may know the job: a local job's id is 20 digits long."""
    return folder.path.name.isdigit() and len(folder.path.name) < len("20261231235959000000")


def _impatiently(
    argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None
) -> CommandResult:
    """Run a command of Slurm with a short deadline: the folder has the rest of the story."""
    return run_command(argv, timeout_s=min(timeout_s, _TIMEOUT_S), env=env)
