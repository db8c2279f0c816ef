"""What the master does once before training: check the data, and build missing vocabularies."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hybridjob.data.layout import categorical_columns
from hybridjob.data.locate import locate
from hybridjob.data.opening import open_main, open_side
from hybridjob.data.schema_of import vocabulary_path
from hybridjob.data.side_table import read_side_columns
from hybridjob.data.split import EVERYTHING, Split
from hybridjob.data.vocabulary import count_values, load_vocabulary, write_vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hybridjob.data.columns import CategoricalColumn
    from hybridjob.data.config import DataConfig
    from hybridjob.data.raw_block import RawTable


def prepare(config: DataConfig, folder: Path, *, seed: int | None = None) -> None:
    """Check the data before training, and build vocabularies that are not there into folder.

    Reads the beginning of each file; for vocabularies of the main files' columns, all of them.
    seed: the job's seed, so that rows held out for the test add no values; None counts all rows.
    A vocabulary that is already in folder stays: a job that comes back keeps its ids.
    Raises DataError naming file and column, with the nearest column's name.
    """
    if config.format in ("synthetic", "tutorial"):
        return
    main = open_main(config, "train")
    sides = [open_side(join, number) for number, join in enumerate(config.join)]
    homes = locate(config, main, sides)
    if config.test_path:
        locate(config, open_main(config, "test"), sides)
    missing = _missing_vocabularies(config, folder)
    counts: dict[str, Counter[str]] = {column.name: Counter() for column in missing}
    for number, side in enumerate(sides):
        here = [column for column in missing if homes[column.column] == number]
        _count_in_side(config, number, side, here, counts)
    own = [column for column in missing if homes[column.column] is None]
    split = EVERYTHING if seed is None else Split("train", config.test_fraction, seed)
    _count_in_main(main, own, split, counts)
    for column in missing:
        write_vocabulary(vocabulary_path(column, folder), column, counts[column.name])


def _missing_vocabularies(config: DataConfig, folder: Path) -> list[CategoricalColumn]:
    missing = []
    for column in categorical_columns(config):
        if column.encode != "vocabulary":
            continue
        path = vocabulary_path(column, folder)
        if column.vocabulary is None and not path.exists():
            missing.append(column)
        else:
            load_vocabulary(path, column.name)
    return missing


def _count_in_side(
    config: DataConfig,
    number: int,
    side: RawTable,
    columns: Sequence[CategoricalColumn],
    counts: Mapping[str, Counter[str]],
) -> None:
    if not columns:
        return
    join = config.join[number]
    inside = {column.name: column.column[len(join.prefix) :] for column in columns}
    cells = read_side_columns(join, side, list(dict.fromkeys(inside.values())), config)
    for column in columns:
        count_values(column, cells[inside[column.name]], counts[column.name])


def _count_in_main(
    main: RawTable,
    columns: Sequence[CategoricalColumn],
    split: Split,
    counts: Mapping[str, Counter[str]],
) -> None:
    if not columns:
        return
    wanted: dict[str, Any] = {column.column: pa.string() for column in columns}
    for block in range(main.num_blocks):
        raw = main.read(block, wanted)
        keep = split.holds(raw.file_index, raw.block_in_file, raw.row_numbers)
        table = raw.table.filter(pa.array(keep))
        for column in columns:
            count_values(column, table[column.column], counts[column.name])
