"""Columns of plain text, within a width if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_LEAST = 6


def lay_out(
    rows: Sequence[Sequence[str]],
    width: int | None,
    *,
    flexible: int,
    right: Collection[int],
    gap: str = "  ",
) -> list[str]:
    """Align rows of equal length. The flexible column gives way where the lines are too wide.

    right: the columns that are aligned to the right. width: None where lines may be of any length.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if width is not None:
        excess = sum(widths) + len(gap) * (len(widths) - 1) - width
        if excess > 0:
            widths[flexible] = max(_LEAST, widths[flexible] - excess)
    lines = []
    for row in rows:
        cells = []
        for column, text in enumerate(row):
            cell = shortened(text, widths[column]) if column == flexible else text
            fill = cell.rjust if column in right else cell.ljust
            cells.append(fill(widths[column]))
        lines.append(gap.join(cells).rstrip())
    return lines


def shortened(text: str, width: int) -> str:
    """Leave out the middle of a text that is too long."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
