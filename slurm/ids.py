"""The ids that Slurm gives to the components of a job."""

from __future__ import annotations

import re

_ID = re.compile(r"(\d+)(?:\+(\d+))?")


def parse_id(text: str) -> tuple[str, int] | None:
    """Take ``67`` or ``67+1`` apart: the leader's id, and which component; None for a step's."""
    match = _ID.fullmatch(text)
    return None if match is None else (match[1], int(match[2] or 0))
