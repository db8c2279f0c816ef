"""Slurm's compact lists: of hosts, and of tasks per node."""

from __future__ import annotations

import re

from submitit.slurm import slurm as submitit_slurm

_REPEATED = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def expand_hosts(text: str) -> tuple[str, ...]:
    """Expand a node list such as ``n[0-3,7],gpu-01`` in its own order.

    Raises ValueError for a text that is no node list.
    """
    try:
        hosts = submitit_slurm._parse_node_list(text)  # noqa: SLF001 - the only parser there is
    except submitit_slurm.SlurmParseException as error:
        raise ValueError(f"{text!r} is no node list") from error
    if not hosts or not all(hosts):
        raise ValueError(f"{text!r} is no node list")
    return tuple(hosts)


def expand_tasks_per_node(text: str) -> tuple[int, ...]:
    """Expand SLURM_TASKS_PER_NODE: ``2(x2),1`` is (2, 2, 1).

    Raises ValueError for a text of another form.
    """
    counts: list[int] = []
    for part in text.split(","):
        match = _REPEATED.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{text!r} is no list of tasks per node such as '2(x2),1'")
        counts.extend([int(match[1])] * int(match[2] or 1))
    return tuple(counts)
