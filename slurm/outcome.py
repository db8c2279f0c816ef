"""What the ranks of a job left behind, and which of them failed first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from submitit.core import core, utils

if TYPE_CHECKING:
    from collections.abc import Sequence

_POLL_S = 0.2


def wait_for_results(tasks: Sequence[core.Job[Any]], timeout_s: float) -> None:
    """Wait, for all ranks together, until their results are visible on this file system.

    submitit waits 15 s for each rank that left none, one after the other.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if all(task.paths.result_pickle.exists() for task in tasks):
            return
        time.sleep(_POLL_S)


def first_error(tasks: Sequence[core.Job[Any]]) -> core.Job[Any] | None:
    """Find the rank that wrote an error first; the others' errors are mostly its consequence.

    None where no rank wrote one: a rank that was killed writes none.
    """
    failed = [task for task in tasks if _outcome(task) == "error"]
    return min(failed, key=lambda task: task.paths.result_pickle.stat().st_mtime_ns, default=None)


def _outcome(task: core.Job[Any]) -> str | None:
    path = task.paths.result_pickle
    if not path.exists():
        return None
    # submitit's own file, in a folder that only the user can open.
    outcome, _ = utils.pickle_load(path)
    return str(outcome)
