"""Run srun once, apart from the signals that its parent hears."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from slurm.say import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NOT_FOUND = 127
"""The exit code where srun cannot be started, as a shell's."""
_POLL_S = 1.0
_KILL_AFTER_S = 15.0


def run_step(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    may_linger_s: Callable[[], float | None],
) -> int:
    """Run srun to its end; return its exit code as a shell would.

    srun waits for ever for the tasks of a node whose slurmstepd has been killed. So once the tasks
    have said their last word, and may_linger_s is a number, it has so long to end, and is ended
    then.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            # Signals to this process's group are not for srun: SIGTERM makes it kill its tasks.
            start_new_session=True,
        )
    except OSError as error:
        say(f"cannot start {argv[0]}: {error.strerror}")
        return NOT_FOUND
    code = _wait(process, may_linger_s)
    return code if code >= 0 else 128 - code


def _wait(process: subprocess.Popen[bytes], may_linger_s: Callable[[], float | None]) -> int:
    linger_s, end_at = None, float("inf")
    while time.monotonic() < end_at:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_POLL_S if linger_s is None else min(_POLL_S, linger_s))
        if linger_s is None and (linger_s := may_linger_s()) is not None:
            end_at = time.monotonic() + linger_s
    say(f"srun is still there {linger_s:g} s after the tasks' last word: ending it")
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        return process.wait(_KILL_AFTER_S)
    process.kill()
    return process.wait()
