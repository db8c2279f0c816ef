"""All checks in order, for one job file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hybridjob.doctor import cluster, folders, machine
from hybridjob.doctor.tables import check_memory, checkpoint_bytes, estimate_tables
from hybridjob.launch import components_of, make_executor, script_of
from slurm.site import candidates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hybridjob.config import Job
    from hybridjob.doctor.finding import Finding
    from hybridjob.launch import ExecutorName
    from slurm.component import Component


def examine(job: Job, kind: ExecutorName, code_folders: Sequence[Path]) -> Iterator[Finding]:
    """Look at everything that can be seen from the machine that submits, one finding a time.

    Raises ConfigError for what the script could not be written with.
    """
    components = components_of(job)
    if kind == "slurm":
        script_of(job, kind, code_folders)  # what cannot be written needs no looking around
    estimate = estimate_tables(job)
    yield folders.check_python(job)
    yield folders.check_model(job, list(code_folders))
    yield from folders.check_data(job)
    yield from folders.check_run_folder(
        job, shared=kind == "slurm", checkpoint_bytes=checkpoint_bytes(job, estimate)
    )
    if kind == "local":
        yield machine.check_cores(job)
        yield machine.check_open_files(job.layout.num_tasks)
        yield check_memory(job, estimate, machine.memory_of_machine_mb())
        return
    commands = cluster.check_commands()
    yield from commands
    if commands[0].level.value == "bad":
        yield check_memory(job, estimate, None)
        return
    yield from _ask_slurm(job, components, code_folders)


def _ask_slurm(
    job: Job, components: Sequence[Component], code_folders: Sequence[Path]
) -> Iterator[Finding]:
    config = cluster.check_config(job)
    yield from config
    if config[0].level.value == "bad":
        return  # every other question would wait for the same controller
    nodes, findings = cluster.ask_nodes()
    yield from findings
    estimate = estimate_tables(job)
    servers = components[-2] if len(components) > 1 else components[0]
    sizes = [node.memory_mb for node in candidates(servers, nodes) if node.usable]
    yield check_memory(job, estimate, min(sizes, default=None))
    if nodes:
        yield from cluster.check_partitions(components, nodes)

    def script(group: Sequence[Component]) -> str:
        executor = make_executor(job, "slurm", code_folders)
        executor.components = tuple(group)
        text: str = executor.script()
        return text

    yield from cluster.check_test_only(components, script)
