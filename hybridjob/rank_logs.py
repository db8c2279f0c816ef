"""The logs in a job's folder: one a rank and generation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.jobfolder import JobFolder

_NAME = re.compile(r"rank-(?P<rank>\d+)-(?P<name>[a-z]+\d*)\.gen-(?P<generation>\d+\.[\d.]+)\.log")


@dataclass(frozen=True, kw_only=True)
class RankLog:
    """One rank's log of one generation. name: master, ps0, trainer1, ..."""

    path: Path
    rank: int
    name: str
    generation: str


def rank_logs(folder: JobFolder) -> list[RankLog]:
    """List the logs of all ranks and generations. A job that has not begun has none."""
    found = []
    for path in sorted((folder.path / "logs").glob("rank-*.log")):
        match = _NAME.fullmatch(path.name)
        if match is not None:
            named = {"name": match["name"], "generation": match["generation"]}
            found.append(RankLog(path=path, rank=int(match["rank"]), **named))
    return found
