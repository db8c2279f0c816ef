"""`hybridjob logs`: print merged logs, and follow them."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from hybridjob.errors import RunError
from hybridjob.runs.facts import read_brief
from hybridjob.runs.merged_logs import Chosen, MergedLogs, last_events
from hybridjob.runs.outside import look_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hybridjob.runs.find import Run
    from hybridjob.runs.merged_logs import Event

_POLL_S = 0.5
_ASK_S = 5.0
_ROLES = ("master", "ps", "trainer")
_COLOURS = {"master": "cyan", "ps": "magenta", "trainer": "green"}


def show_logs(
    run: Run, *, role: str | None, rank: int | None, follow: bool, tail: int | None
) -> None:
    """Print the logs of the chosen ranks; follow: until the run is over, or Ctrl-C.

    Raises RunError if there is no such rank, or nothing is there.
    """
    if role is not None and role.rstrip("0123456789") not in _ROLES:
        raise RunError(f"--role is {role!r}, but must be master, ps or trainer, or one such as ps1")
    logs = MergedLogs(run.folder, Chosen(role, rank))
    try:
        events = last_events(logs.new_events(), tail)
        if not events and not follow:
            raise RunError(_nothing(run, logs))
        _print(logs, events)
        if follow:
            _follow(run, logs)
    except BrokenPipeError:
        raise  # of who reads us, such as head
    except OSError as error:
        raise RunError(f"cannot read {error.filename}: {error.strerror}") from error
    except KeyboardInterrupt:
        return


def _follow(run: Run, logs: MergedLogs) -> None:
    asked, over = 0.0, False
    while True:
        if time.monotonic() - asked > _ASK_S:
            seen = look_at([read_brief(run)])[run.job_id]
            over, asked = seen.state.is_over, time.monotonic()
        _print(logs, logs.new_events())  # after the question: what is there now is all there is
        sys.stdout.flush()
        if over:
            return
        time.sleep(_POLL_S)


def _print(logs: MergedLogs, events: Iterable[Event]) -> None:
    console = Console()
    for event, text in logs.headed(events):
        if not console.is_terminal:
            sys.stdout.write(text + "\n")
            continue
        style = "bold" if event is None else _COLOURS.get(event.role, "")
        if event is not None and " ERROR " in event.lines[0]:
            style = "bold red"
        console.print(Text(text, style=style), soft_wrap=True)


def _nothing(run: Run, logs: MergedLogs) -> str:
    """Say which ranks there are, or where else the reason may stand."""
    ranks = logs.ranks()
    if ranks:
        names = ", ".join(f"{number} {name}" for number, name in ranks[:12])
        return f"job {run.job_id} has no log of that rank. It has: {names}"
    batch = run.folder.path.parent / f"slurm-{run.job_id}.log"
    where = [str(path) for path in (batch, run.folder.path / f"{run.job_id}_0_log.err")
             if path.exists() and path.stat().st_size]  # fmt: skip
    more = f" See {' and '.join(where)}" if where else ""
    return f"no rank of job {run.job_id} has begun a log yet.{more}"
