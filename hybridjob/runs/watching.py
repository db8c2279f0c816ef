"""Print a screen once, or again and again: in place on a terminal, as blocks in a pipe."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.text import Text

from hybridjob.runs.state import RunState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_STYLES = {
    "completed": "green",
    "running": "cyan",
    "pending": "yellow",
    "requeued": "yellow",
    "failed": "bold red",
    "lost": "bold red",
    "timeout": "bold red",
    "cause": "bold red",
    "killed:": "bold red",
    "cancelled": "magenta",
}


def print_styled(lines: Sequence[str]) -> None:
    """Print lines, coloured on a terminal only, and never cut or wrapped."""
    console = Console()
    for line in lines:
        console.print(_styled(line), soft_wrap=True)


def watch(
    values: Callable[[], dict[str, Any]],
    show: Callable[[dict[str, Any]], list[str]],
    *,
    every_s: float,
) -> None:
    """Show values until the run is over; Ctrl-C ends it as well."""
    console = Console()
    try:
        if console.is_terminal:
            _watch_in_place(console, values, show, every_s)
            return
        while True:
            current = values()
            print_styled([*show(current), ""])
            if RunState(current["state"]).is_over:
                return
            time.sleep(every_s)
    except KeyboardInterrupt:
        return


def _watch_in_place(
    console: Console,
    values: Callable[[], dict[str, Any]],
    show: Callable[[dict[str, Any]], list[str]],
    every_s: float,
) -> None:
    from rich.live import Live  # noqa: PLC0415 - only here

    current = values()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            live.update(Group(*(_styled(line) for line in show(current))), refresh=True)
            if RunState(current["state"]).is_over:
                return
            time.sleep(every_s)
            current = values()


def _styled(line: str) -> Text:
    """Colour the words that say a state, where they stand alone."""
    text = Text(line, no_wrap=True)
    start = 0
    for word in line.split(" "):
        style = _STYLES.get(word.lower())
        if style:
            text.stylize(style, start, start + len(word))
        start += len(word) + 1
    return text
