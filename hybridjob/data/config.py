"""The `[data]` table of the job file. Imports nothing heavy: a login node loads it."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from hybridjob.data.columns import (
    CategoricalColumn,
    NumericColumn,
    SyntheticFeature,
    as_tuple,
)
from hybridjob.data.label import parse_label
from hybridjob.strict import Section

Paths = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]

_SYNTHETIC_KEYS = frozenset({"num_samples", "num_dense", "features", "label_noise"})
_FILE_KEYS = frozenset(
    {
        *("source", "path", "test_path", "header", "delimiter", "quote", "newlines_in_values"),
        *("column_names", "header_type_separator", "null_values", "label", "numeric"),
        *("categorical", "join", "on_bad_row", "num_embeddings"),
    }
)


class TextForm(Section):
    """How delimited text is written; ignored for parquet.

    header: the first line names the columns; else column_names must.
    delimiter: one character; default a tab for tsv, a comma for csv.
    quote: cells may stand in double quotes; default only for csv.
    newlines_in_values: quoted cells may hold line ends; then each file is read as one block.
    header_type_separator: what follows it in a header's name is a type and is cut off: with ":" the
    header `user_id:token` names the column user_id.
    null_values: cells that count as missing.
    """

    header: bool = True
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    quote: bool | None = None
    newlines_in_values: bool = False
    column_names: tuple[str, ...] | None = None
    header_type_separator: str | None = Field(default=None, min_length=1)
    null_values: tuple[str, ...] = ("",)

    @field_validator("delimiter")
    @classmethod
    def _check_delimiter(cls, value: str | None) -> str | None:
        if value is not None and (value in '\r\n"' or not value.isascii()):
            raise ValueError(f"got {value!r}, expected one ASCII character that ends no line")
        return value

    @field_validator("column_names")
    @classmethod
    def _check_names(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        _refuse_repeats(value or (), "column")
        return value


class JoinTable(TextForm):
    """`[[data.join]]`: a side table, held in memory, whose columns can be used as if they were own.

    key: the column of the main data; side_key: that of the side table, by default the same.
    A key that the side table lacks gives missing values. prefix is put before its columns' names.
    """

    path: Paths = Field(min_length=1)
    format: Literal["tsv", "csv", "parquet"] = "tsv"
    key: str = Field(min_length=1)
    side_key: str | None = None
    prefix: str = ""

    @model_validator(mode="after")
    def _check(self) -> JoinTable:
        if self.format != "parquet" and not self.header and self.column_names is None:
            raise ValueError("header = false needs column_names")
        return self

    @property
    def key_in_side(self) -> str:
        """The key's column in the side table, without the prefix."""
        return self.side_key or self.key


class DataConfig(TextForm):
    """`[data]`: what is read, which columns mean what, and how rows are dealt and shuffled.

    path: files, globs allowed (sorted), relative to the current folder. test_path: separate files
    for the test; else test_fraction holds rows of path out, the same for any number of trainers.
    label_type: "binary" gives 0 or 1, "float" the value, both float32; "class" gives int64.
    num_embeddings: the default for columns that are hashed; criteo's 26 categories need it.
    shuffle_rows: about how many rows are shuffled among each other.
    num_samples, num_dense, features, label_noise (share of labels flipped): synthetic only.
    The tutorial's data has its own batch sizes, so that the job's batch size is ignored.
    """

    format: Literal["tsv", "csv", "parquet", "criteo", "synthetic", "tutorial"] = "tsv"
    source: Literal["movielens-100k"] | None = None
    path: Paths = ()
    test_path: Paths = ()
    test_fraction: float = Field(default=0.0, ge=0, lt=1)
    label: str | None = None
    label_type: Literal["binary", "float", "class"] = "binary"
    num_classes: int | None = Field(default=None, ge=2)
    numeric: tuple[NumericColumn, ...] = ()
    categorical: tuple[CategoricalColumn, ...] = ()
    join: tuple[JoinTable, ...] = ()
    num_embeddings: int | None = Field(default=None, ge=1, lt=2**63)
    on_bad_row: Literal["stop", "skip"] = "stop"
    shuffle: bool = True
    shuffle_rows: int = Field(default=65_536, ge=1)
    cache_folder: str | None = None
    num_samples: int | None = Field(default=None, ge=1)
    num_dense: int = Field(default=0, ge=0)
    features: tuple[SyntheticFeature, ...] = ()
    label_noise: float = Field(default=0.0, ge=0, le=0.5)

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("format") == "tutorial":
            return {"label_type": "class", "num_classes": 8, **given}
        return given

    @field_validator("label")
    @classmethod
    def _check_label(cls, value: str | None) -> str | None:
        if value is not None:
            parse_label(value)
        return value

    @model_validator(mode="after")
    def _check(self) -> DataConfig:
        _refuse_repeats([column.name for column in self.numeric], "numeric")
        _refuse_repeats([column.name for column in self.categorical], "categorical")
        _refuse_repeats([feature.name for feature in self.features], "features")
        if self.test_path and self.test_fraction:
            raise ValueError("test_path and test_fraction are both given: keep one")
        if self.num_classes is not None and self.label_type != "class":
            raise ValueError('num_classes is only for label_type = "class"')
        if self.format in ("synthetic", "tutorial"):
            _check_made_up(self)
        else:
            _check_files(self)
        return self


def _check_made_up(config: DataConfig) -> None:
    allowed = _SYNTHETIC_KEYS if config.format == "synthetic" else frozenset()
    _refuse_keys(config, (_FILE_KEYS | _SYNTHETIC_KEYS) - allowed)
    if config.format == "tutorial":
        if config.test_fraction:
            raise ValueError("the tutorial's data is made up anew each epoch: no test_fraction")
        if config.label_type != "class":
            raise ValueError('the tutorial\'s labels are classes: label_type = "class"')
        return
    if config.num_samples is None or not (config.features or config.num_dense):
        raise ValueError('format = "synthetic" needs num_samples, and features or num_dense')
    if config.label_type == "class":
        raise ValueError('format = "synthetic" makes labels of label_type "binary" or "float"')


def _check_files(config: DataConfig) -> None:
    _refuse_keys(config, _SYNTHETIC_KEYS)
    if config.format == "criteo":
        _check_criteo(config)
        return
    if not config.path and config.source is None:
        raise ValueError("path is missing: name the files to read, or a source")
    if config.label is None:
        raise ValueError("label is missing: name a column, or a rule such as 'rating >= 4'")
    if not (config.numeric or config.categorical):
        raise ValueError("no column is used: add [[data.numeric]] or [[data.categorical]]")
    if config.format != "parquet" and not config.header and config.column_names is None:
        raise ValueError("header = false needs column_names")
    for column in config.categorical:
        if column.encode == "hash" and not (column.num_embeddings or config.num_embeddings):
            raise ValueError(
                f"{column.name!r} is hashed: give it num_embeddings, or data.num_embeddings for all"
            )


def _check_criteo(config: DataConfig) -> None:
    if not config.path:
        raise ValueError("path is missing: name the files to read")
    if config.num_embeddings is None:
        raise ValueError('format = "criteo" needs num_embeddings: how many ids each category has')
    fixed = {"source", "header", "delimiter", "quote", "column_names", "label", "join"}
    _refuse_keys(config, fixed | {"newlines_in_values", "header_type_separator"})
    if config.label_type == "class":
        raise ValueError('format = "criteo" has labels 0 and 1: label_type "binary" or "float"')
    known = {f"I{i}" for i in range(1, 14)} | {f"C{i}" for i in range(1, 27)}
    for column in (*config.numeric, *config.categorical):
        if column.column not in known:
            raise ValueError(f"criteo has no column {column.column!r}: I1 to I13 and C1 to C26")


def _refuse_keys(config: DataConfig, keys: set[str] | frozenset[str]) -> None:
    fields = type(config).model_fields
    given = sorted(
        key for key in keys & config.model_fields_set if getattr(config, key) != fields[key].default
    )
    if given:
        raise ValueError(f'{", ".join(given)}: not for format = "{config.format}", leave it out')


def _refuse_repeats(names: tuple[str, ...] | list[str], where: str) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"{where} {repeated[0]!r} is named twice")
