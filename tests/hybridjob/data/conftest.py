"""Small data files and ways to read them whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hybridjob.data.config import DataConfig
from hybridjob.data.prepare import prepare
from hybridjob.data.reader import Reader, open_reader

COLUMNS = {
    "label": "y",
    "numeric": [{"column": "x"}],
    "categorical": [{"column": "u", "encode": "identity", "num_embeddings": 100}],
}


@pytest.fixture
def small_text(tmp_path: Path) -> Callable[..., DataConfig]:
    """Write a text with a header line and return its config; columns y, x, u unless told."""

    def make(text: str | bytes, *, name: str = "data.csv", **keys: Any) -> DataConfig:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return DataConfig(**{"format": "csv", "path": str(path), **COLUMNS, **keys})

    return make


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Reader]:
    """Prepare and open a reader: one trainer, training split, batches of 4 unless told."""

    def make(config: DataConfig, **keys: Any) -> Reader:
        folder = tmp_path / "vocabularies"
        prepare(config, folder, seed=keys.get("seed", 0))
        defaults = {
            "split": "train",
            "seed": 0,
            "trainer": 0,
            "num_trainers": 1,
            "batch_size": 4,
        }
        return open_reader(config, folder=folder, **{**defaults, **keys})

    return make


@pytest.fixture
def rows_of(opened: Callable[..., Reader]) -> Callable[..., dict[str, list[Any]]]:
    """Read an epoch in the file's order: labels, dense, and each feature's bags as lists."""

    def read(config: DataConfig, **keys: Any) -> dict[str, list[Any]]:
        reader = opened(config.model_copy(update={"shuffle": False}), **keys)
        rows: dict[str, list[Any]] = {"labels": [], "dense": []}
        for batch in reader.batches(0):
            rows["labels"] += batch.labels.tolist()
            rows["dense"] += batch.dense.tolist()
            for name, bag in batch.features.items():
                ends = bag.offsets.tolist()
                values = bag.values.tolist()
                pairs = list(itertools.pairwise(ends))
                rows.setdefault(name, []).extend(values[a:b] for a, b in pairs)
                if bag.weights is not None:
                    amounts = bag.weights.tolist()
                    rows.setdefault(f"{name} weights", []).extend(amounts[a:b] for a, b in pairs)
        rows["skipped"] = [reader.skipped_rows]
        return rows

    return read
