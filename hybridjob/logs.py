"""Log lines: one event a line, role and rank in front, key=value at the end."""

from __future__ import annotations

import logging
import sys
from typing import Any


def set_up_logging(name: str, rank: int) -> None:
    """Send this process's log to stdout. Called by entry points only."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        logging.Formatter(f"%(asctime)s {name}/{rank} %(levelname)s %(message)s", "%H:%M:%S")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def log_event(
    logger: logging.Logger, what: str, level: int = logging.INFO, /, **values: Any
) -> None:
    """Log one event with its values."""
    fields = " ".join(f"{key}={_short(value)}" for key, value in values.items())
    logger.log(level, "%s", f"{what} {fields}".rstrip())


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    text = str(value)
    return repr(text) if " " in text else text
