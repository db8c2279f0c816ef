"""Heterogeneous Slurm jobs on submitit: components, script, placement, state, local executor.

Names are imported when they are first used: a task that only reads its placement, or the local
controller, pays for nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm.component import Component
    from slurm.errors import (
        CommandError,
        LocalJobError,
        PlacementError,
        SlurmError,
        SubmissionError,
    )
    from slurm.executor import HetExecutor
    from slurm.job import HetJob
    from slurm.local import LocalExecutor
    from slurm.local_job import LocalHetJob
    from slurm.placement import Placement, read_placement
    from slurm.query import query_states
    from slurm.script import render_script
    from slurm.state import JobState

_MODULES = {
    "CommandError": "errors",
    "Component": "component",
    "HetExecutor": "executor",
    "HetJob": "job",
    "JobState": "state",
    "LocalExecutor": "local",
    "LocalHetJob": "local_job",
    "LocalJobError": "errors",
    "Placement": "placement",
    "PlacementError": "errors",
    "SlurmError": "errors",
    "SubmissionError": "errors",
    "query_states": "query",
    "read_placement": "placement",
    "render_script": "script",
}

__all__ = [
    "CommandError",
    "Component",
    "HetExecutor",
    "HetJob",
    "JobState",
    "LocalExecutor",
    "LocalHetJob",
    "LocalJobError",
    "Placement",
    "PlacementError",
    "SlurmError",
    "SubmissionError",
    "query_states",
    "read_placement",
    "render_script",
]


def __getattr__(name: str) -> Any:
    """Import a public name's module when the name is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"slurm.{_MODULES[name]}"), name)
