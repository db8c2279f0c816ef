"""The label's rule: `clicked`, or `rating >= 4`, or `gender == 'M'`."""

from __future__ import annotations

import re
from dataclasses import dataclass

OPERATORS = (">=", "<=", "==", "!=", ">", "<")
_RULE = re.compile(
    r"^\s*(?P<column>[^<>=!]+?)\s*(?P<operator>>=|<=|==|!=|>|<)\s*(?P<value>[^<>=!\s].*?)\s*$"
)
_QUOTED = re.compile(r"""^(['"])(?P<text>.*)\1$""")


@dataclass(frozen=True)
class LabelRule:
    """A column and, if it is compared with something, an operator and a number or a text."""

    column: str
    operator: str | None = None
    value: float | str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the column is compared as text."""
        return isinstance(self.value, str)


def parse_label(text: str) -> LabelRule:
    """Read a label's rule. Raises ValueError that says what is wrong with it."""
    found = _RULE.match(text)
    if found is None:
        column = text.strip()
        if not column or any(mark in column for mark in "<>=!"):
            raise ValueError(
                f"got {text!r}, expected a column, or a rule such as 'rating >= 4' with one of "
                + ", ".join(OPERATORS)
            )
        return LabelRule(column)
    column, operator, value = found["column"], found["operator"], found["value"]
    quoted = _QUOTED.match(value)
    if quoted is not None:
        if operator not in ("==", "!="):
            raise ValueError(f"{text!r} compares text by {operator}: only == and != can")
        return LabelRule(column, operator, quoted["text"])
    try:
        return LabelRule(column, operator, float(value))
    except ValueError:
        raise ValueError(
            f"{text!r} compares with {value!r}, which is no number: put text in quotes, "
            f'such as {column} == "{value}"'
        ) from None
