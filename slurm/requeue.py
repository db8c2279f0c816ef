"""Send a job back to the queue from within."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slurm.command import run_command
from slurm.component_states import TIMEOUT_S
from slurm.environment import scrubbed
from slurm.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm.query import Runner

_TRIES = 5
_PAUSE_S = 2.0


def requeue(
    leader: str,
    *,
    run: Runner = run_command,
    is_running: Callable[[], bool],
    sleep: Callable[[float], None] = time.sleep,
    which: Callable[[str], str | None] = shutil.which,
) -> str | None:
    """Send the whole job back to the queue, by its leader's id.

    is_running: whether the job is still there to be requeued; it decides, not scontrol's code.
    Returns None once the job is on its way, else why it is not.
    """
    if which("scontrol") is None:
        return "scontrol is not on this node"
    said = ""
    for attempt in range(_TRIES):
        if attempt:
            sleep(_PAUSE_S * attempt)
            if not is_running():
                return None
        try:
            with held_back(signal.SIGTERM):
                run(["scontrol", "requeue", leader], timeout_s=TIMEOUT_S, env=scrubbed(os.environ))
        except CommandError as error:
            said = str(error)
        else:
            return None
    return said


@contextmanager
def held_back(number: signal.Signals) -> Iterator[None]:
    """Block a signal here and in the children that are started meanwhile; hear it afterwards.

    The SIGTERM that a requeue brings is sent to all processes of the batch script, scontrol too.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
