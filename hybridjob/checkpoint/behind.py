"""Writing a checkpoint's files while training goes on."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hybridjob.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hybridjob.checkpoint.entries import FileEntry


@dataclass(frozen=True)
class Written:
    """The files that are on the disk, or why they are not."""

    files: list[FileEntry] = field(default_factory=list)
    error: str | None = None


def write(work: Callable[[], list[FileEntry]]) -> Written:
    """Write now."""
    try:
        return Written(work())
    except CheckpointError as error:
        return Written(error=str(error))
    except Exception as error:  # noqa: BLE001 - nobody else would hear of it from a thread
        return Written(error=f"{type(error).__name__}: {error}")


def write_behind(
    work: Callable[[], list[FileEntry]], then: Callable[[Written], None]
) -> threading.Thread:
    """Write in a thread of its own; `then` is called there with what came of it."""
    thread = threading.Thread(
        target=lambda: then(write(work)), name="checkpoint-writer", daemon=True
    )
    thread.start()
    return thread
