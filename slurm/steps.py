"""Steps that an earlier life of a job, or an earlier attempt, has left behind."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from slurm.command import run_command
from slurm.component_states import TIMEOUT_S
from slurm.environment import scrubbed
from slurm.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from slurm.query import Runner

_NUMBERED = re.compile(r"\d+(?:\+\d+)?\.\d+")
_POLL_S = 0.5


def parse_steps(text: str) -> list[str]:
    """Pick the steps that srun started: ``68.0`` or ``67+1.0``, not ``68.batch``."""
    return [line for line in text.split() if _NUMBERED.fullmatch(line)]


def list_steps(component_ids: Iterable[str], *, run: Runner = run_command) -> list[str]:
    """List the numbered steps of components, which have a job id each. Raises CommandError."""
    steps: list[str] = []
    for component_id in component_ids:
        argv = ["squeue", "--noheader", "--steps", f"--jobs={component_id}", "-o", "%i"]
        try:
            steps += parse_steps(run(argv, timeout_s=TIMEOUT_S, env=scrubbed(os.environ)).stdout)
        except CommandError as error:
            if not error.is_unknown_job:
                raise
    return steps


def clear_steps(
    find: Callable[[], Sequence[str]],
    *,
    deadline_s: float,
    run: Runner = run_command,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Sequence[str], Sequence[str]]:
    """Cancel the steps that `find` lists and wait until it lists none.

    Returns the steps there were, and those that are still there after deadline_s.
    Raises CommandError where Slurm does not answer.
    """
    found = left = find()
    deadline = time.monotonic() + deadline_s
    cancelled: set[str] = set()
    while left and time.monotonic() < deadline:
        for step in left:
            if step not in cancelled:
                cancelled.add(step)
                _cancel(step, run)
        sleep(_POLL_S)
        left = find()
    return found, left


def _cancel(step: str, run: Runner) -> None:
    """Cancel a step. One that has ended by itself meanwhile is no error: the caller looks again."""
    try:
        run(["scancel", step], timeout_s=TIMEOUT_S, env=scrubbed(os.environ))
    except CommandError as error:
        if "Unable to contact" in str(error) or "did not answer" in str(error):
            raise
