"""What of an outer job's environment may reach a command or a new job."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_DROPPED_PREFIXES = (
    "SLURM_",
    "SBATCH_",
    "SRUN_",
    "SALLOC_",
    "SQUEUE_",
    "SACCT_",
    "SCANCEL_",
)
# These say which cluster to talk to and as whom; Slurm sets none of them from a job's own options.
# Without SLURM_CONF a command finds no controller, and with another SLURM_CLUSTERS than sbatch's,
# squeue and scancel would ask another cluster about the same id.
_KEPT = frozenset({"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"})


def scrubbed(env: Mapping[str, str]) -> dict[str, str]:
    """Copy an environment without what belongs to another job or changes a command's meaning.

    A leaked SLURM_CPUS_PER_TASK or SLURM_CPU_BIND breaks the ranks of a job that is submitted from
    inside another, and SBATCH_* variables win over the script's own lines, in all components.
    """
    return {
        name: value
        for name, value in env.items()
        if name in _KEPT or not name.startswith(_DROPPED_PREFIXES)
    }
