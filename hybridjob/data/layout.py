"""The columns that a job uses, presets resolved. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hybridjob.data.columns import CategoricalColumn, NumericColumn
from hybridjob.data.label import LabelRule, parse_label

if TYPE_CHECKING:
    from hybridjob.data.config import DataConfig, TextForm

_CRITEO_NUMERIC = tuple(f"I{i}" for i in range(1, 14))
_CRITEO_CATEGORICAL = tuple(f"C{i}" for i in range(1, 27))


@dataclass(frozen=True, kw_only=True)
class TextLayout:
    """How text files are cut into cells. column_names None: the header names them."""

    delimiter: str
    quote: bool
    header: bool
    newlines_in_values: bool
    column_names: tuple[str, ...] | None
    type_separator: str | None
    null_values: tuple[str, ...]


def text_layout(form: TextForm, format_name: str) -> TextLayout:
    """Resolve defaults and presets of delimited text."""
    if format_name == "criteo":
        names = ("label", *_CRITEO_NUMERIC, *_CRITEO_CATEGORICAL)
        header, delimiter, quote = False, "\t", False
    else:
        names = form.column_names or ()
        header = form.header
        delimiter = form.delimiter or {"tsv": "\t", "csv": ","}[format_name]
        quote = format_name == "csv" if form.quote is None else form.quote
    return TextLayout(
        delimiter=delimiter,
        quote=quote,
        header=header,
        newlines_in_values=form.newlines_in_values and quote,
        column_names=names or None,
        type_separator=form.header_type_separator,
        null_values=form.null_values,
    )


def label_rule(config: DataConfig) -> LabelRule:
    """Give the rule that makes the label."""
    return parse_label(config.label or "label")


def numeric_columns(config: DataConfig) -> tuple[NumericColumn, ...]:
    """Give the dense matrix's columns in order."""
    if config.format != "criteo":
        return config.numeric
    own = {column.column: column for column in config.numeric}
    return tuple(
        own.get(name) or NumericColumn(column=name, name=name, transform="log1p")
        for name in _CRITEO_NUMERIC
    )


def categorical_columns(config: DataConfig) -> tuple[CategoricalColumn, ...]:
    """Give the features in order, each hashed one with its num_embeddings."""
    columns = config.categorical
    if config.format == "criteo":
        own = {column.column: column for column in config.categorical}
        columns = tuple(
            own.get(name) or CategoricalColumn(column=name, name=name)
            for name in _CRITEO_CATEGORICAL
        )
    return tuple(
        column.model_copy(update={"num_embeddings": config.num_embeddings})
        if column.encode == "hash" and column.num_embeddings is None
        else column
        for column in columns
    )
