"""What the trainers tell the master, and the master the trainers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hybridjob.checkpoint.entries import FileEntry
    from hybridjob.schema import Schema, Table


@dataclass(frozen=True, kw_only=True)
class Begin:
    """The master to every trainer: the tables are there, begin."""

    schema: Schema
    tables: list[Table]
    checkpoint: str | None = None
    """Folder to go on from."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Trainer 0 to the master, every few steps.

    loss: mean over the samples since the last report. seconds: what one trainer spent in each
    phase of a step since then, and a server, on average. waits: server -> seconds of lookup in
    which its answer was the last to come. lag: how many steps' gradients the rows lacked at most.
    """

    step: int
    epoch: int
    loss: float
    samples: int
    elapsed_s: float
    estimated_steps: int
    seconds: dict[str, float] = field(default_factory=dict)
    waits: dict[str, float] = field(default_factory=dict)
    lag: int = 0


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Trainer 0 to the master: metrics of the held-out rows."""

    step: int
    epoch: int
    metrics: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """Every trainer to the master: it stands between two steps and waits to save.

    position: where its reading goes on in this epoch. last: it must be durable before training
    goes on, or ends.
    """

    trainer: int
    step: int
    epoch: int
    samples: int
    position: dict[str, Any]
    last: bool = False


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Every trainer to the master: its files are on the disk, or why not."""

    trainer: int
    files: list[FileEntry]
    error: str | None = None


@dataclass(frozen=True)
class Woken:
    """The master to itself: a call on its way has been answered."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """Every trainer to the master: done. The dense digests of all must be the same."""

    trainer: int
    step: int
    epoch: int
    loss: float
    samples: int
    skipped_rows: int
    dense_digest: str


@dataclass(frozen=True)
class Left:
    """Every trainer to the master: it was asked to leave, and has saved."""

    trainer: int
    step: int


Report = Progress | Scores | Boundary | Saved | Woken | Left | Finished
