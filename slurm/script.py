"""From components to the text of a batch script: a pure function."""

from __future__ import annotations

import re
import shlex
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from slurm.options import (
    check_memory,
    check_one_line,
    sbatch_options,
    shortest_time,
    srun_options,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurm.component import Component, Flag

_TEMPLATE = "hetjob.sbatch.j2"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def render_script(
    components: Sequence[Component],
    *,
    command: str,
    job_name: str,
    output: str,
    job_folder: str,
    setup: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    signal: str | None = None,
    comment: str | None = None,
    python: str = "python3",
    max_attempts: int = 1,
) -> str:
    """Write the batch script of one job that runs one step over all components.

    command: the words, quoted for bash, that every task runs. They are given to srun as they are:
    no pipes, no `&&`.
    output: file of the batch script's own output; `%j` is the job's id; its folder must exist.
    job_folder: where the logs and results of the ranks go; `%j` is the job's id; the script
    makes it. setup: lines of bash that run once, on the first node of component 0.
    environment: variables of the script and so of all tasks. signal: as in sbatch, `USR2@120`.
    python: the words, quoted for bash, that run this package's slurm.batch on the first node, with
    srun and scontrol at hand. max_attempts: steps in one life of the job, if one is lost.
    Raises ValueError for what sbatch or bash could not read back as it was meant.
    """
    if not components:
        raise ValueError("a job needs at least one component")
    check_memory(components)
    shared: dict[str, Flag | None] = {
        "job-name": job_name,
        "time": shortest_time(components),
        "output": check_folder(output),
        "open-mode": "append",
        "requeue": True,
        "signal": signal,
        "export": "ALL",
        "comment": comment,
    }
    return _template().render(
        title=f"{check_one_line('the job name', job_name)}: {_size_of_job(components)}",
        components=_views(components, shared),
        environment=[_assignment(name, value) for name, value in (environment or {}).items()],
        setup=list(setup),
        job_folder=_quoted_folder(job_folder),
        command=check_one_line("the command", command),
        python=check_one_line("python", python),
        max_attempts=max_attempts,
    )


def check_folder(path: str) -> str:
    """Return the path; raise ValueError for a `%` that is not the job's id."""
    if "%" in path.replace("%j", ""):
        raise ValueError(f"{path!r} has a % in it: only %j, the job's id, may stand in a path")
    return check_one_line("the path", path)


def _views(
    components: Sequence[Component], shared: Mapping[str, Flag | None]
) -> list[dict[str, Any]]:
    """Give the template what it shows of each component."""
    views = []
    first_rank = 0
    for index, component in enumerate(components):
        last_rank = first_rank + component.num_tasks - 1
        ranks = (
            f"rank {first_rank}" if first_rank == last_rank else f"ranks {first_rank}-{last_rank}"
        )
        name = check_one_line("the component's name", component.name)
        views.append(
            {
                "title": f"{name}, {_count(component.nodes, 'node')}, {ranks}",
                "sbatch_options": sbatch_options(component, shared),
                "srun_options": srun_options(component, index if len(components) > 1 else None),
            }
        )
        first_rank = last_rank + 1
    return views


def _size_of_job(components: Sequence[Component]) -> str:
    kind = "one heterogeneous job" if len(components) > 1 else "one job"
    num_tasks = sum(component.num_tasks for component in components)
    return f"{kind}, {_count(len(components), 'component')}, {_count(num_tasks, 'task')}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _assignment(name: str, value: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name!r} is no name of an environment variable")
    if "\0" in value:
        raise ValueError(f"the value of {name} has a zero byte in it")
    return f"{name}={shlex.quote(value)}"


def _quoted_folder(path: str) -> str:
    """Quote a path for bash, with the job's id where `%j` stands."""
    parts = check_folder(path).split("%j")
    return '"${SLURM_JOB_ID}"'.join(shlex.quote(part) if part else "" for part in parts)


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        # A shell script is no HTML; every value is quoted for its reader before it comes here.
        autoescape=False,  # noqa: S701
        keep_trailing_newline=True,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.from_string(_template_text())


def _template_text() -> str:
    """Read the template that lies beside this package, in a checkout and installed.

    Not the namespace package first: a folder of the same name where the user works is part of it.
    """
    beside = Path(__file__).resolve().parent.parent / "sbatch_templates" / _TEMPLATE
    if beside.is_file():
        return beside.read_text(encoding="utf-8")
    return (resources.files("sbatch_templates") / _TEMPLATE).read_text(encoding="utf-8")
