"""Where each rank is: one small file a rank in the job's folder, written by its task."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from hybridjob.jobfolder import read_json, write_atomically
from hybridjob.logs import told_if_unwritable

if TYPE_CHECKING:
    from hybridjob.jobfolder import JobFolder


@dataclass(frozen=True, kw_only=True)
class RankRecord:
    """A rank's newest worker. exit_code: None while it works; -N after signal N."""

    rank: int
    name: str
    host: str
    component: int
    pid: int
    generation: str
    started: float
    ended: float | None = None
    exit_code: int | None = None

    def at_its_end(self, exit_code: int) -> RankRecord:
        """Give the record of the same worker once it has ended."""
        return replace(self, ended=round(time.time(), 3), exit_code=exit_code)


def write_rank(folder: JobFolder, record: RankRecord) -> None:
    """Write a rank's record. A disk that is full must not stop the training: it is then old."""
    path = folder.rank(record.rank)
    with told_if_unwritable(path):
        write_atomically(path, json.dumps(asdict(record)) + "\n")


def read_ranks(folder: JobFolder) -> list[RankRecord]:
    """Read the records of all ranks that have begun, by rank."""
    found = (read_json(path) for path in sorted((folder.path / "ranks").glob("*.json")))
    return [RankRecord(**values) for values in found if values is not None]
