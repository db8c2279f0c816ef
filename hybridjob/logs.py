"""Log lines: one event a line, time, role and rank in front, key=value at the end."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_STAMP = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\.\d{3} ")


def set_up_logging(name: str, rank: int) -> None:
    """Send this process's log to stdout. Called by entry points only."""
    handler = logging.StreamHandler(sys.stdout)
    formatter = logging.Formatter(f"%(asctime)s {name}/{rank} %(levelname)s %(message)s")
    formatter.default_msec_format = "%s.%03d"
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def tell(text: str) -> None:
    """Print a line of a task's own; a full disk behind it must not stop the training."""
    with contextlib.suppress(OSError):
        print(text, flush=True)  # noqa: T201


@contextlib.contextmanager
def told_if_unwritable(path: Path, more: str = "") -> Iterator[None]:
    """Write something that training can do without: if that fails, as on a full disk, say so."""
    try:
        yield
    except OSError as error:
        tell(f"cannot write {path}: {error.strerror}{more}")


def log_event(
    logger: logging.Logger, what: str, level: int = logging.INFO, /, **values: Any
) -> None:
    """Log one event with its values."""
    fields = " ".join(f"{key}={_short(value)}" for key, value in values.items())
    logger.log(level, "%s", f"{what} {fields}".rstrip())


def error_line(name: str, rank: int, text: str) -> str:
    """Write a line as a worker's log would, for one whose worker has ended."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return f"{stamp}.{int(now % 1 * 1000):03d} {name}/{rank} ERROR {' '.join(text.split())}"


def stamp_of(line: str) -> str | None:
    """Give the time in front of a line, to be compared as text; None if it has none."""
    match = _STAMP.match(line)
    return None if match is None else match[0]


def without_date(line: str) -> str:
    """Leave only hours, minutes and seconds of the time in front of a line, for a person."""
    return _STAMP.sub(r"\2 ", line, count=1)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    text = str(value)
    return repr(text) if " " in text else text
