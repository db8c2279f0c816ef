"""Open the files of a data set, and put a reader's source together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hybridjob.data.encoder import Encoder
from hybridjob.data.files import expand
from hybridjob.data.layout import categorical_columns, text_layout
from hybridjob.data.locate import locate
from hybridjob.data.parquet_table import ParquetTable
from hybridjob.data.schema_of import vocabulary_path
from hybridjob.data.side_table import load_side_table
from hybridjob.data.source import FileSource, Source
from hybridjob.data.split import EVERYTHING, Split, SplitName
from hybridjob.data.text_table import TextTable
from hybridjob.data.vocabulary import load_vocabulary

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.data.config import DataConfig, JoinTable
    from hybridjob.data.raw_block import RawTable


def open_files(config: DataConfig, split: SplitName, seed: int, folder: Path) -> Source:
    """Open the files of one split; `prepare` has made the vocabularies in folder."""
    main = open_main(config, split)
    encoder = open_encoder(config, main, folder)
    side = EVERYTHING if config.test_path else Split(split, config.test_fraction, seed)
    return FileSource(main, encoder, side, skip_bad_rows=config.on_bad_row == "skip")


def open_encoder(config: DataConfig, main: RawTable, folder: Path) -> Encoder:
    """Read the joined tables, and the vocabularies that `prepare` has made in folder."""
    raw_sides = [open_side(join, number) for number, join in enumerate(config.join)]
    homes = locate(config, main, raw_sides)
    indexes = {
        column.name: load_vocabulary(vocabulary_path(column, folder), column.name)
        for column in categorical_columns(config)
        if column.encode == "vocabulary"
    }
    sides = [
        load_side_table(number, config, table, homes, indexes)
        for number, table in enumerate(raw_sides)
    ]
    return Encoder(config, homes, sides, indexes)


def open_main(config: DataConfig, split: SplitName) -> RawTable:
    """Open the main files of a split; none, if there is nothing to test on."""
    if split == "test" and config.test_path:
        paths = expand(config.test_path, "data.test_path")
    elif split == "test" and not config.test_fraction:
        paths = ()
    else:
        paths = expand(config.path, "data.path")
    if config.format == "parquet":
        return ParquetTable(paths)
    return TextTable(paths, text_layout(config, config.format))


def open_side(join: JoinTable, number: int) -> RawTable:
    """Open the files of the joined table of a number."""
    paths = expand(join.path, f"data.join[{number}].path")
    if join.format == "parquet":
        return ParquetTable(paths)
    return TextTable(paths, text_layout(join, join.format), whole=True)
