"""Readers: one trainer's batches of an epoch, from the beginning or from any position."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hybridjob.data.opening import open_files
from hybridjob.data.prefetch import prefetched
from hybridjob.data.rows import Rows, concatenate, slice_rows, take
from hybridjob.data.split import Split, SplitName
from hybridjob.data.synthetic import SyntheticSource
from hybridjob.data.tensors import to_batch
from hybridjob.data.tutorial import TutorialReader
from hybridjob.data.window import Dealing, Window, windows
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hybridjob.data.batch import Batch
    from hybridjob.data.config import DataConfig
    from hybridjob.data.source import Source


class Reader(Protocol):
    """Reads one trainer's share."""

    @property
    def skipped_rows(self) -> int:
        """Bad rows left out so far in the epoch that is read, also before a start in its middle."""

    def batches(self, epoch: int, start: dict[str, Any] | None = None) -> Iterator[Batch]:
        """Give an epoch's batches, or exactly those that follow the batch of position `start`.

        The last may be short. Raises DataError for bad data, and for a position of other data.
        """

    def estimated_batches(self) -> int:
        """Say about how many batches an epoch has, from sizes alone."""


def open_reader(
    config: DataConfig,
    *,
    split: SplitName,
    seed: int,
    trainer: int,
    num_trainers: int,
    batch_size: int,
    folder: Path,
) -> Reader:
    """Open one trainer's share of a split.

    batch_size: samples in a batch of this trainer; the tutorial's data ignores it. folder: where
    `prepare` has put vocabularies. What is read is a function of the arguments alone. Over all
    trainers every row of the split comes once an epoch; a trainer may get none.
    """
    if not 0 <= trainer < num_trainers:
        raise ValueError(f"trainer is {trainer}, expected 0..{num_trainers - 1}")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, but must be at least 1")
    if config.format == "tutorial":
        return TutorialReader(seed=seed, trainer=trainer, is_empty=split == "test")
    source: Source
    if config.format == "synthetic":
        source = SyntheticSource(config, Split(split, config.test_fraction, seed), seed)
    else:
        source = open_files(config, split, seed, folder)
    return BlockReader(
        source,
        Dealing(
            seed=seed,
            epoch=0,
            trainer=trainer,
            num_trainers=num_trainers,
            shuffle=config.shuffle and split == "train",
            window_rows=config.shuffle_rows,
        ),
        batch_size,
    )


class BlockReader:
    """Reads blocks of a source; the next window is loaded while one is handed out."""

    def __init__(self, source: Source, dealing: Dealing, batch_size: int) -> None:
        self._source = source
        self._dealing = dealing
        self._batch_size = batch_size
        self._skipped = 0

    @property
    def skipped_rows(self) -> int:
        """Bad rows left out so far in the epoch that is read."""
        return self._skipped

    def estimated_batches(self) -> int:
        """Say about how many batches an epoch has, from sizes alone."""
        rows = self._source.estimated_rows() / self._dealing.num_trainers
        return int(np.ceil(rows / self._batch_size))

    def batches(self, epoch: int, start: dict[str, Any] | None = None) -> Iterator[Batch]:
        """Give an epoch's batches, or exactly those that follow the batch of position `start`."""
        dealing = self._dealing.of_epoch(epoch)
        first, rows, skipped = (0, 0, 0) if start is None else _read_position(start, dealing)
        self._skipped = skipped
        return self._batches(dealing, first, rows, skipped)

    def _batches(self, dealing: Dealing, first: int, begin: int, skipped: int) -> Iterator[Batch]:
        parts: list[Rows] = []
        count = 0
        with closing(prefetched(windows(self._source, dealing, first, skipped), 1)) as ahead:
            for window in ahead:
                before, skipped = skipped, window.skipped
                self._skipped = skipped
                size = len(window.rows)
                while begin < size:
                    end = min(size, begin + self._batch_size - count)
                    parts.append(_cut(window, begin, end))
                    count += end - begin
                    begin = end
                    if count == self._batch_size:
                        position = _position(dealing, window.first, end, before)
                        yield to_batch(concatenate(parts), position)
                        parts, count = [], 0
                begin = 0
                last = _position(dealing, window.first, size, before)
        if count:
            yield to_batch(concatenate(parts), last)


def _cut(window: Window, begin: int, end: int) -> Rows:
    if window.order is None:
        return slice_rows(window.rows, begin, end)
    return take(window.rows, window.order[begin:end])


def _position(dealing: Dealing, block: int, row: int, skipped: int) -> dict[str, Any]:
    return {
        "epoch": dealing.epoch,
        "trainers": dealing.num_trainers,
        "block": block,
        "row": row,
        "skipped": skipped,
    }


def _read_position(position: dict[str, Any], dealing: Dealing) -> tuple[int, int, int]:
    """Take a position apart. Raises DataError if it belongs to another epoch or dealing."""
    expected = _position(dealing, 0, 0, 0)
    if position.keys() != expected.keys():
        raise DataError(f"position {position} is none of this data: expected {list(expected)}")
    for key in ("epoch", "trainers"):
        if position[key] != expected[key]:
            raise DataError(
                f"position is of {key} {position[key]}, but {key} {expected[key]} is read: "
                "rows are dealt anew, so begin an epoch"
            )
    return int(position["block"]), int(position["row"]), int(position["skipped"])
