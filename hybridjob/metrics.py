"""What the master writes for people and programs: metrics.jsonl and TensorBoard's events."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from torch.utils.tensorboard import SummaryWriter

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from hybridjob.jobfolder import JobFolder
    from hybridjob.messages import Progress, Scores


class MetricsWriter:
    """Writes one line, and one set of TensorBoard scalars, a report."""

    def __init__(self, folder: JobFolder) -> None:
        self._lines = folder.metrics.open("a", encoding="utf-8")
        self._board = SummaryWriter(str(folder.tensorboard))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lines.close()
        self._board.close()

    def progress(self, progress: Progress) -> None:
        """Write loss, speed and where the time went."""
        seconds = {f"seconds/{name}": round(value, 4) for name, value in progress.seconds.items()}
        values = {
            "loss": progress.loss,
            "samples_per_s": round(progress.samples / max(progress.elapsed_s, 1e-9), 1),
            "epoch": progress.epoch,
            "lag": progress.lag,
            **seconds,
        }
        self._write(progress.step, values, {"of_steps": progress.estimated_steps})

    def scores(self, scores: Scores) -> None:
        """Write the metrics of the held-out rows."""
        self._write(
            scores.step, {f"test/{name}": value for name, value in scores.metrics.items()}, {}
        )

    def _write(self, step: int, values: dict[str, float], more: dict[str, Any]) -> None:
        line = {"step": step, "time": round(time.time(), 3), **values, **more}
        self._lines.write(json.dumps(line) + "\n")
        self._lines.flush()
        for name, value in values.items():
            self._board.add_scalar(name, value, step)
