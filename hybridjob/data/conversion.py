"""Read a data set once, and write what training needs of it: parquet with ids and numbers.

One row group is one block of the original, in its order, and says so: rows are dealt, shuffled and
held out as those of the original are, for any seed and any number of trainers.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hybridjob.data.converted_columns import converted_section
from hybridjob.data.converted_files import PartWriter, Written, parts_of
from hybridjob.data.layout import categorical_columns
from hybridjob.data.opening import open_encoder, open_main
from hybridjob.data.prepare import prepare
from hybridjob.data.schema_of import schema_of, vocabulary_path, vocabulary_sizes
from hybridjob.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hybridjob.data.config import DataConfig
    from hybridjob.data.split import SplitName


@dataclass(frozen=True)
class Progress:
    """How far a conversion is, in blocks of the original; what has been written so far."""

    blocks: int
    of_blocks: int
    written: Written


def convert(
    config: DataConfig,
    *,
    seed: int,
    folder: Path,
    final: Path,
    report: Callable[[Progress], None],
) -> dict[str, Any]:
    """Write a data set's rows and vocabularies into a folder, which is there and empty.

    seed: the job's, since vocabularies are built from training rows alone. final: what the folder
    will be called when it is read. Returns the `[data]` that reads it there. One block is in
    memory at a time. Raises DataError for bad data, and if there are no rows.
    """
    vocabularies = folder / "vocabularies"
    prepare(config, vocabularies, seed=seed)
    cardinalities = schema_of(config, vocabulary_sizes(config, vocabularies)).cardinalities
    splits: tuple[SplitName, ...] = ("train", "test") if config.test_path else ("train",)
    tables = {split: open_main(config, split) for split in splits}
    of_blocks = sum(table.num_blocks for table in tables.values())
    blocks, total = 0, Written(0, 0)
    for split, table in tables.items():
        (folder / split).mkdir()
        encoder = open_encoder(config, table, vocabularies)
        writer = PartWriter(table, encoder, config, cardinalities)
        for part in parts_of(table):
            for written in writer.write(folder / split / part.file_name, part):
                blocks, total = blocks + 1, total.plus(written)
                report(Progress(blocks, of_blocks, total))
        if not any((folder / split).iterdir()):
            raise DataError(f"{', '.join(map(str, table.paths))}: there are no rows to convert")
    _keep_own_vocabularies(config, vocabularies)
    return converted_section(config, cardinalities, final)


def _keep_own_vocabularies(config: DataConfig, folder: Path) -> None:
    """Put the user's own vocabularies beside those built here: they say what the ids mean."""
    for column in categorical_columns(config):
        if column.vocabulary is not None:
            folder.mkdir(exist_ok=True)
            shutil.copyfile(vocabulary_path(column, folder), folder / f"{column.name}.txt")
