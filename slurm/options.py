"""From a component to the options of sbatch and srun. Pure."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from slurm.duration import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slurm.component import Component, Flag

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_GPU_FLAGS = ("gpus", "gres", "tres")


def check_one_line(what: str, text: str) -> str:
    """Return the text; raise ValueError where a control character would start another line."""
    if _CONTROL.search(text):
        raise ValueError(f"{what} is {text!r}: it must be one line without control characters")
    return text


def sbatch_option(name: str, value: Flag) -> str:
    """Write one option for a #SBATCH line.

    sbatch reads quotes there by rules of its own: a backslash escapes, inside quotes of both
    kinds too, and nothing is expanded.
    """
    if value is True:
        return f"--{name}"
    text = check_one_line(f"--{name}", str(value))
    if not _PLAIN.fullmatch(text):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"--{name}={text}"


def srun_option(name: str, value: Flag) -> str:
    """Write one option for a line that bash reads."""
    if value is True:
        return f"--{name}"
    return shlex.quote(f"--{name}={check_one_line(f'--{name}', str(value))}")


def shortest_time(components: Sequence[Component]) -> str | None:
    """Choose the limit of all components: the shortest that any asks for, None if none does.

    A component with a shorter limit than the others would be warned, and end, alone.
    """
    given = [component.time for component in components if component.time is not None]

    def in_seconds(text: str) -> float:
        seconds = parse_duration(text)
        return float("inf") if seconds is None else seconds

    return min(given, key=in_seconds, default=None)


def check_memory(components: Sequence[Component]) -> None:
    """Raise ValueError for memory that means something else in a het job than it says.

    --mem is passed on to the components that come after, where it is either wrong without a word
    or refused beside their own --mem-per-cpu.
    """
    first: Component | None = None
    for component in components:
        if first is not None and component.mem is None:
            raise ValueError(
                f"{first.name!r} asks for mem={first.mem}, and Slurm would give the same to "
                f"{component.name!r}, which has no mem: write mem there too ('0' is all of a node)"
            )
        if component.mem is not None and first is None:
            first = component


def sbatch_options(component: Component, shared: Mapping[str, Flag | None]) -> list[str]:
    """Write the options of one component, each as it stands behind #SBATCH.

    shared: options that have one value in the whole job, written in every component.
    """
    own: dict[str, Flag | None] = {
        "partition": component.partition,
        "account": component.account,
        "qos": component.qos,
        "constraint": component.constraint,
        "nodes": component.nodes,
        "ntasks": component.num_tasks,
        # Where the tasks do not divide by the nodes this is a maximum: each node has room for it.
        "ntasks-per-node": component.tasks_per_node,
        "cpus-per-task": component.cpus_per_task,
        "gpus-per-node": component.gpus_per_node or None,
        "mem": component.mem,
        "mem-per-cpu": component.mem_per_cpu,
    }
    every = [*shared.items(), *own.items(), *component.flags.items()]
    return [sbatch_option(name, value) for name, value in _given(every)]


def srun_options(component: Component, group: int | None) -> str:
    """Write the step options of one component; group is its index in a het job."""
    even = component.num_tasks % component.nodes == 0
    wants_gpus = any(flag.startswith(_GPU_FLAGS) for flag in component.step_flags)
    own: dict[str, Flag | None] = {
        "het-group": group,
        "nodes": component.nodes,
        "ntasks": component.num_tasks,
        # srun warns about, and ignores, tasks per node that do not multiply to ntasks.
        "ntasks-per-node": component.tasks_per_node if even else None,
        "distribution": None if even else "cyclic",
        "cpus-per-task": component.cpus_per_task,
        "gpus-per-node": None if wants_gpus else component.gpus_per_node or None,
        "mem": component.mem,
        "mem-per-cpu": component.mem_per_cpu,
        "export": "ALL",
        "mpi": None if "mpi" in component.step_flags else "none",
        "unbuffered": True,
        "kill-on-bad-exit": 1,
        # 0 is no limit: without it a site's own WaitTime ends the others after the first exit.
        "wait": 0,
    }
    every = [*own.items(), *component.step_flags.items()]
    return " ".join(srun_option(name, value) for name, value in _given(every))


def _given(options: Iterable[tuple[str, Flag | None]]) -> list[tuple[str, Flag]]:
    return [(name, value) for name, value in options if value is not None and value is not False]
