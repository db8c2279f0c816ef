"""What a job's components have used, as accounting tells; nothing where there is none."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm.command import run_command
from slurm.environment import scrubbed
from slurm.errors import CommandError

if TYPE_CHECKING:
    from slurm.query import Runner

_FIELDS = "JobID,State,ElapsedRaw,TotalCPU,MaxRSS,NodeList,AllocTRES"
_UNITS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


@dataclass(frozen=True, kw_only=True)
class Usage:
    """One component's. max_rss: bytes, the most of any task; None where it was not sampled."""

    component: int
    state: str
    elapsed_s: int
    cpu_s: float
    max_rss: int | None
    nodes: str
    allocated: str


def query_usage(
    job_id: str, *, timeout_s: float = 3.0, run: Runner = run_command
) -> tuple[Usage, ...]:
    """Ask sacct; empty where there is no accounting or it does not answer in time."""
    argv = ["sacct", "-n", "-P", "-j", job_id, "-o", _FIELDS]
    try:
        text = run(argv, timeout_s=timeout_s, env=scrubbed(os.environ)).stdout
    except CommandError:
        return ()
    return parse_usage(text, job_id)


def parse_usage(text: str, job_id: str) -> tuple[Usage, ...]:
    """Read sacct's lines: `67+1|...` is a component, `67+1.0|...` a step of it."""
    rows: dict[int, list[list[str]]] = defaultdict(list)
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) != len(_FIELDS.split(",")):
            continue
        leader, _, rest = cells[0].partition("+")
        component = rest.partition(".")[0]
        if leader.partition(".")[0] == job_id and (component.isdigit() or not rest):
            rows[int(component or 0)].append(cells)
    return tuple(_usage(index, rows[index]) for index in sorted(rows))


def _usage(index: int, rows: list[list[str]]) -> Usage:
    whole = rows[0]
    sizes = [size for row in rows if (size := _bytes(row[4])) is not None]
    return Usage(
        component=index,
        state=whole[1],
        elapsed_s=int(whole[2] or 0),
        cpu_s=_seconds(whole[3]),
        max_rss=max(sizes, default=None),
        nodes=whole[5],
        allocated=whole[6],
    )


def _bytes(text: str) -> int | None:
    try:
        unit = _UNITS.get(text[-1:].upper(), 1)
        return int(float(text.rstrip("KMGTkmgt")) * unit)
    except ValueError:
        return None


def _seconds(text: str) -> float:
    """Turn sacct's CPU time, `1-02:03:04` or `02:03.456`, into seconds."""
    days, _, rest = text.rpartition("-")
    total = 0.0
    try:
        for part in rest.split(":"):
            total = total * 60 + float(part or 0)
        return total + int(days or 0) * 86_400
    except ValueError:
        return 0.0
