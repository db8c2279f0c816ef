"""The submitter's side of a local job's controller: start it, read its state, stop it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm.environment import scrubbed
from slurm.errors import LocalJobError, SubmissionError
from slurm.local_leftovers import kill_leftovers, start_ticks
from slurm.state import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

# Isolated: neither the current folder nor a site's start-up files take part. The package's own
# folder comes last in the path, as others may lie beside it.
_START = "import sys; sys.path.append(sys.argv[1]); from slurm.local_controller import main; main()"
_POLL_S = 0.05
_PACKAGE_ROOT = Path(__file__).resolve().parent.parent

# The controllers that this process started, by job id. Their standard inputs are open here.
_controllers: dict[str, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, kw_only=True)
class LocalState:
    """What the controller last wrote.

    controller_started: in ticks since the host's start, which tells it from a later process.
    exit_codes: by rank; None while the task runs or if it never started, -N after signal N.
    cause_rank: the rank that failed first, for which all others were ended.
    """

    state: JobState
    controller_pid: int | None = None
    controller_host: str | None = None
    controller_started: int | None = None
    pids: tuple[int, ...] = ()
    exit_codes: tuple[int | None, ...] = ()
    cause_rank: int | None = None
    cause_error: str | None = None


def start_controller(spec: Mapping[str, Any], log_file: Path) -> None:
    """Start the controller of a job and hand it the description. Raises SubmissionError."""
    try:
        with log_file.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _START, str(_PACKAGE_ROOT)],
                env=scrubbed(os.environ),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                # Ctrl-C in a terminal goes to the submitter alone, which decides what it means.
                start_new_session=True,
            )
    except OSError as error:
        raise SubmissionError(
            f"the local job's controller could not be started: {error}"
        ) from error
    _controllers[spec["job_id"]] = process
    assert process.stdin is not None  # noqa: S101 - asked for above
    try:
        process.stdin.write(json.dumps(spec).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError as error:
        raise SubmissionError(
            f"the local job's controller ended at once: see {log_file}"
        ) from error


def read_state(job_id: str, state_file: Path) -> LocalState:
    """Read a job's state. A controller that is gone without a final word makes it NODE_FAIL.

    What such a controller left running is killed first.
    """
    state = look_at_state(job_id, state_file)
    if state.state is JobState.NODE_FAIL:
        kill_leftovers(job_id)
    return state


def look_at_state(job_id: str, state_file: Path) -> LocalState:
    """Read a job's state as read_state does, and touch nothing.

    From another machine than the controller's, a state that is not final is UNKNOWN.
    """
    # Asked before the file is read: so a final state that is written last is not missed.
    lost = _is_gone(job_id)
    state = _parse(state_file)
    if lost is None and state.controller_pid is not None:
        if state.controller_host not in (None, socket.gethostname()):
            final = state.state.is_final
            return state if final else replace(state, state=JobState.UNKNOWN)
        lost = not _is_controller(state)
        state = _parse(state_file)
    if state.state.is_final or not lost:
        return state
    return replace(state, state=JobState.NODE_FAIL)


def stop_controller(job_id: str, state_file: Path, timeout_s: float) -> None:
    """Have the controller end its tasks, and wait for it, in the submitter or another process.

    Raises LocalJobError where the controller is still there after timeout_s.
    """
    deadline = time.monotonic() + timeout_s
    process = _controllers.get(job_id)
    if process is not None:
        with suppress(ProcessLookupError):
            process.terminate()
    elif (state := _parse(state_file)).controller_pid is not None and _is_controller(state):
        with suppress(ProcessLookupError):
            os.kill(state.controller_pid, signal.SIGTERM)
    while not read_state(job_id, state_file).state.is_final:
        if time.monotonic() > deadline:
            raise LocalJobError(
                f"local job {job_id} did not end within {timeout_s:g} s: kill its controller, "
                f"whose process id is in {state_file}, and its tasks end with it"
            )
        time.sleep(_POLL_S)


def _is_gone(job_id: str) -> bool | None:
    """Tell whether a controller of this process has ended; None if it is another process's."""
    process = _controllers.get(job_id)
    if process is None:
        return None
    if process.poll() is None:
        return False
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
    return True


def _is_controller(state: LocalState) -> bool:
    """Tell whether the process is still the controller, and not another that got its number.

    Where there is no /proc, any process of that number is taken for it.
    """
    pid = state.controller_pid
    if pid is None or state.controller_started not in (None, start_ticks(pid)):
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    try:
        return _START.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return not Path("/proc/self").exists()


def _parse(state_file: Path) -> LocalState:
    try:
        record = json.loads(state_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return LocalState(state=JobState.PENDING)
    cause = record["cause"] or {}
    return LocalState(
        state=JobState(record["state"]),
        controller_pid=record["controller_pid"],
        controller_host=record.get("controller_host"),
        controller_started=record.get("controller_started"),
        pids=tuple(record["pids"]),
        exit_codes=tuple(record["exit_codes"]),
        cause_rank=cause.get("rank"),
        cause_error=cause.get("error"),
    )
