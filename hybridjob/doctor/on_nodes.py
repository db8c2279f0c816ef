"""Run the doctor's own short job, of the same shape as the real one, and judge what it saw."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from typing import TYPE_CHECKING, Any

from hybridjob.doctor.finding import bad, ok, warn
from hybridjob.doctor.judge import judge_nodes
from hybridjob.doctor.node_check import TOKEN, about_this_task, check_node
from hybridjob.launch import make_executor
from slurm.command import run_command
from slurm.environment import scrubbed
from slurm.errors import CommandError, SlurmError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hybridjob.config import Job
    from hybridjob.doctor.finding import Finding
    from hybridjob.launch import ExecutorName

_TIME_LIMIT = "5"
_MEET_S = 60.0
_POLL_S = 0.5
_ASK_S = 5.0


def check_nodes(
    job: Job, kind: ExecutorName, code_folders: Sequence[Path], *, wait_s: float
) -> list[Finding]:
    """Start one task for each of the job's, wait for their reports, end what is left."""
    folder = job.run_path / "doctor"
    meeting = folder / secrets.token_hex(4)
    token = secrets.token_hex(8)
    try:
        meeting.mkdir(parents=True, mode=0o700)
        (meeting / TOKEN).write_text(token, encoding="ascii")
        submitted = make_executor(_short(job, folder), kind, code_folders).submit(
            check_node, str(meeting), _MEET_S
        )
    except OSError as error:
        return [bad("shared folder", f"{meeting}: {error.strerror}", "set run_folder elsewhere")]
    except SlurmError as error:
        return [bad("trial job", str(error), "correct what it names in the job file")]
    findings = _collect(submitted, meeting, job, kind, wait_s)
    findings += judge_nodes(
        _reports(meeting),
        num_tasks=job.layout.num_tasks,
        token=token,
        own=about_this_task(),
        rdma=job.network.rdma,
    )
    if all(finding.level.value == "ok" for finding in findings[:1]):
        shutil.rmtree(meeting, ignore_errors=True)
    return findings


def _short(job: Job, folder: Path) -> Job:
    slurm = job.slurm.model_copy(update={"time": _TIME_LIMIT, "signal_delay_s": 30})
    parts = {
        name: part.model_copy(update={"time": None})
        for name in ("master", "ps", "trainer")
        if (part := getattr(job, name)) is not None
    }
    update = {"slurm": slurm, "run_folder": str(folder), "name": f"{job.name}-doctor", **parts}
    return job.model_copy(update=update)


def _collect(
    submitted: Any, meeting: Path, job: Job, kind: ExecutorName, wait_s: float
) -> list[Finding]:
    """Wait until all ranks have reported, the job has ended, or the deadline has come."""
    started = time.monotonic()
    wanted, next_look = job.layout.num_tasks, 0.0
    try:
        while len(_reports(meeting)) < wanted:
            passed = time.monotonic() - started
            if passed > wait_s:
                return [_too_late(submitted.job_id, meeting, kind, wait_s)]
            if passed > next_look:
                if submitted.done():
                    break
                next_look = passed + _ASK_S
            time.sleep(_POLL_S)
    finally:
        _end(submitted, kind)
    here = len(_reports(meeting))
    if here < wanted:
        where = submitted.paths.folder
        return [
            bad("trial job", f"{submitted.job_id} ended with {here} of {wanted} reports",
                f"see the logs in {where}")
        ]  # fmt: skip
    return [ok("trial job", f"{submitted.job_id} ran {wanted} tasks")]


def _too_late(job_id: str, meeting: Path, kind: ExecutorName, wait_s: float) -> Finding:
    if _reports(meeting) or kind == "local":
        return bad("trial job", f"{job_id}: not all ranks reported in {wait_s:.0f} s", "see below")
    return warn(
        "trial job",
        f"{job_id} did not start within {wait_s:.0f} s ({_why_pending(job_id)}); it is cancelled",
        "try again when the cluster is less busy, or --wait longer",
    )


def _why_pending(job_id: str) -> str:
    try:
        argv = ["squeue", "-h", "-j", job_id, "-o", "%T: %r"]
        said = run_command(argv, timeout_s=_ASK_S, env=scrubbed(os.environ))
    except CommandError as error:
        return str(error)
    return "; ".join(dict.fromkeys(said.stdout.splitlines())) or "squeue does not know it"


def _end(submitted: Any, kind: ExecutorName) -> None:
    """End the job if it is still there: a few seconds for its own end, then scancel."""
    deadline = time.monotonic() + _ASK_S
    if kind == "local":
        while not submitted.done() and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    with contextlib.suppress(SlurmError):
        submitted.cancel(check=False)


def _reports(meeting: Path) -> list[dict[str, Any]]:
    files = sorted(meeting.glob("report-*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]
