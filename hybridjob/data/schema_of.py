"""What the data offers to a model: the number of dense columns, and of each feature's ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hybridjob.data.layout import categorical_columns, numeric_columns
from hybridjob.data.tutorial_shape import FEATURE, NUM_EMBEDDINGS
from hybridjob.errors import DataError
from hybridjob.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hybridjob.data.columns import CategoricalColumn
    from hybridjob.data.config import DataConfig


def vocabulary_path(column: CategoricalColumn, folder: Path) -> Path:
    """Name the file of a vocabulary: the user's own, or the one built in folder."""
    if column.vocabulary is not None:
        return Path(column.vocabulary).expanduser()
    return folder / f"{column.name}.txt"


def vocabulary_sizes(config: DataConfig, folder: Path) -> dict[str, int]:
    """Count the ids of each vocabulary feature: its file's lines, and one for unknown values.

    Raises DataError if a file is missing: `prepare` makes those that are not given.
    """
    sizes: dict[str, int] = {}
    for column in categorical_columns(config):
        if column.encode != "vocabulary":
            continue
        path = vocabulary_path(column, folder)
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise DataError(
                f"vocabulary of {column.name!r}: cannot read {path}: {error}"
            ) from error
        sizes[column.name] = len(lines) + 1
    return sizes


def schema_of(config: DataConfig, vocabulary_sizes: Mapping[str, int] | None = None) -> Schema:
    """Describe the data to a model.

    vocabulary_sizes: for features with a vocabulary the number of their ids. Raises DataError
    naming one that lacks.
    """
    if config.format == "tutorial":
        return Schema(cardinalities={FEATURE: NUM_EMBEDDINGS})
    if config.format == "synthetic":
        sizes = {feature.name: feature.cardinality for feature in config.features}
        return Schema(num_dense=config.num_dense, cardinalities=sizes)
    cardinalities: dict[str, int] = {}
    for column in categorical_columns(config):
        size = column.num_embeddings or (vocabulary_sizes or {}).get(column.name)
        if size is None:
            raise DataError(
                f"the size of {column.name!r} is not known yet: its vocabulary is built first"
            )
        cardinalities[column.name] = size
    return Schema(num_dense=len(numeric_columns(config)), cardinalities=cardinalities)
