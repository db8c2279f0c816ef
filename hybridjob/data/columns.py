"""Sections of the job file that describe single columns of the data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from hybridjob.strict import Section


def as_tuple(value: Any) -> Any:
    """Let one string stand for a list of one."""
    return (value,) if isinstance(value, str) else value


class _NamedColumn(Section):
    column: str = Field(min_length=1)
    name: str = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _name_after_column(cls, given: Any) -> Any:
        if isinstance(given, dict) and "name" not in given and "column" in given:
            return {**given, "name": given["column"]}
        return given


class NumericColumn(_NamedColumn):
    """`[[data.numeric]]`: one column of the dense matrix.

    transform: "log1p" is sign(x) * log(1 + |x|); "standard" is (x - mean) / std.
    missing: what an empty cell gives, after the transform.
    """

    transform: Literal["none", "log1p", "standard"] = "none"
    mean: float | None = None
    std: float | None = Field(default=None, gt=0)
    missing: float = 0.0

    @model_validator(mode="after")
    def _check(self) -> NumericColumn:
        if self.transform == "standard" and (self.mean is None or self.std is None):
            raise ValueError('transform = "standard" needs mean and std')
        if self.transform != "standard" and (self.mean is not None or self.std is not None):
            raise ValueError('mean and std are only for transform = "standard"')
        return self


class CategoricalColumn(_NamedColumn):
    """`[[data.categorical]]`: one feature, a bag of ids a sample.

    encode: "hash" puts any value into one of num_embeddings ids; "identity" takes the value itself
    as id, 0 <= id < num_embeddings; "vocabulary" numbers the values of a file, one a line, from 1
    on, and id 0 is for any other value. Without a file it is built from the training data once.
    separator: cuts a cell into several values, such as " " for "Action Comedy"; an empty cell is an
    empty bag. Lists in parquet files need none.
    weights_column: for each value of the bag a number, cut by the same separator.
    missing: an empty cell becomes an "id" (of the empty text for hash, 0 for vocabulary), an
    "empty" bag, or is a "bad" row. Default: "id", but "empty" for bags and for identity.
    """

    encode: Literal["hash", "vocabulary", "identity"] = "hash"
    num_embeddings: int | None = Field(default=None, ge=1, lt=2**63)
    vocabulary: str | None = None
    min_count: int = Field(default=1, ge=1)
    separator: str | None = Field(default=None, min_length=1)
    weights_column: str | None = None
    missing: Literal["id", "empty", "bad"] | None = None

    @model_validator(mode="after")
    def _check(self) -> CategoricalColumn:
        if any(mark in self.name for mark in "/\\\0") or self.name.startswith("."):
            raise ValueError(
                f"name is {self.name!r}: it names a file too, so no slash, no dot first"
            )
        if self.encode == "identity" and self.num_embeddings is None:
            raise ValueError('encode = "identity" needs num_embeddings: the number of ids')
        if self.encode == "vocabulary" and self.num_embeddings is not None:
            raise ValueError(
                'encode = "vocabulary" counts its ids itself: leave num_embeddings out'
            )
        if self.encode != "vocabulary" and (self.vocabulary is not None or self.min_count > 1):
            raise ValueError('vocabulary and min_count are only for encode = "vocabulary"')
        if self.encode == "identity" and self.missing == "id":
            raise ValueError('encode = "identity" has no id for missing values: "empty" or "bad"')
        return self

    @property
    def missing_policy(self) -> Literal["id", "empty", "bad"]:
        """What an empty cell becomes, the default resolved."""
        if self.missing is not None:
            return self.missing
        return "empty" if self.separator or self.encode == "identity" else "id"


class SyntheticFeature(Section):
    """`[[data.features]]`: one made-up feature.

    ids_per_sample: a number, or [least, most] for bags of varying size (0 allowed).
    zipf: the exponent of the ids' distribution, id 0 being the most frequent; 0 is uniform.
    weighted: also make per-sample weights, uniform in [0.5, 1.5).
    """

    name: str = Field(min_length=1)
    cardinality: int = Field(ge=1, lt=2**53)
    ids_per_sample: int | tuple[int, int] = 1
    zipf: float = Field(default=0.0, ge=0, le=20)
    weighted: bool = False

    @model_validator(mode="after")
    def _check(self) -> SyntheticFeature:
        least, most = self.bag_sizes
        if not 0 <= least <= most or most == 0:
            raise ValueError(
                f"ids_per_sample is {self.ids_per_sample!r}, expected a number from 1 on, "
                "or [least, most]"
            )
        return self

    @property
    def bag_sizes(self) -> tuple[int, int]:
        """The least and the most ids of a bag."""
        if isinstance(self.ids_per_sample, int):
            return self.ids_per_sample, self.ids_per_sample
        return self.ids_per_sample
