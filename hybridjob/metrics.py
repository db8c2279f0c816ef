"""What the master writes for people and programs: metrics.jsonl and TensorBoard's events."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import time
from typing import TYPE_CHECKING, Any

from torch.utils.tensorboard import SummaryWriter

from hybridjob.logs import log_event

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from hybridjob.jobfolder import JobFolder
    from hybridjob.messages import Progress, Scores

logger = logging.getLogger(__name__)


class MetricsWriter:
    """Writes one line, and one set of TensorBoard scalars, a report."""

    def __init__(self, folder: JobFolder) -> None:
        self._lines = folder.metrics.open("ab", buffering=0)
        self._board: SummaryWriter | None = SummaryWriter(str(folder.tensorboard))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lines.close()
        if self._board is not None:
            try:
                self._board.close()
            except OSError as problem:
                _warn("TensorBoard's events", problem)

    def progress(self, progress: Progress) -> None:
        """Write loss, speed and where the time went."""
        seconds = {f"seconds/{name}": round(value, 4) for name, value in progress.seconds.items()}
        values = {
            "loss": progress.loss,
            "samples_per_s": round(progress.samples / max(progress.elapsed_s, 1e-9), 1),
            "epoch": progress.epoch,
            "lag": progress.lag,
            **seconds,
            **{f"waits/{name}": round(value, 4) for name, value in progress.waits.items()},
        }
        self._write(progress.step, values, {"of_steps": progress.estimated_steps})

    def scores(self, scores: Scores) -> None:
        """Write the metrics of the held-out rows."""
        self._write(
            scores.step, {f"test/{name}": value for name, value in scores.metrics.items()}, {}
        )

    def _write(self, step: int, values: dict[str, float], more: dict[str, Any]) -> None:
        line = {"step": step, "time": round(time.time(), 3), **values, **more}
        self._append(json.dumps(line).encode() + b"\n")
        self._show(step, values)

    def _append(self, line: bytes) -> None:
        """Write a whole line or none: a full disk costs lines, not the training."""
        end = self._lines.seek(0, os.SEEK_END)
        try:
            if self._lines.write(line) == len(line):
                return
            error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as raised:
            error = raised
        _warn("metrics.jsonl", error)
        with contextlib.suppress(OSError):  # a line that is cut would spoil the next one
            self._lines.truncate(end)

    def _show(self, step: int, values: dict[str, float]) -> None:
        try:
            for name, value in values.items():
                if self._board is not None:
                    self._board.add_scalar(name, value, step)
        except OSError as error:
            _warn("TensorBoard's events", error)
            self._board = None  # its thread has ended


def _warn(what: str, error: OSError) -> None:
    log_event(logger, f"cannot write {what}, training goes on: {error.strerror}", logging.WARNING)
