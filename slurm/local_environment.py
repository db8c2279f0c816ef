"""The variables that a task of a local job sees: those of a step over a het job. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm.component import Component

HOST = "localhost"
MARKER = "SLURM_LOCAL_EXECUTOR"


def job_environment(
    components: Sequence[Component], *, job_id: str, job_name: str
) -> dict[str, str]:
    """Give the variables that all tasks of a job share.

    Every node is this host, so a component of two nodes lists it twice. A plain job, of one
    component, has no *_HET_GROUP_* variables, as in Slurm.
    """
    num_tasks = str(sum(component.num_tasks for component in components))
    num_nodes = sum(component.nodes for component in components)
    env = {
        MARKER: "1",
        "SLURM_JOBID": job_id,
        "SLURM_JOB_ID": job_id,
        "SLURM_JOB_NAME": job_name,
        "SLURM_JOB_NODELIST": _hosts(1 if len(components) > 1 else num_nodes),
        "SLURM_JOB_NUM_NODES": str(num_nodes),
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_NNODES": str(num_nodes),
        "SLURM_NPROCS": num_tasks,
        "SLURM_NTASKS": num_tasks,
        "SLURM_STEPID": "0",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_NODES": str(num_nodes),
        "SLURM_STEP_NUM_TASKS": num_tasks,
        "SLURM_TASKS_PER_NODE": ",".join(_tasks_per_node(component) for component in components),
        "SUBMITIT_EXECUTOR": "slurm",
    }
    if len(components) > 1:
        env["SLURM_HET_SIZE"] = str(len(components))
        for index, component in enumerate(components):
            group = f"_HET_GROUP_{index}"
            env[f"SLURM_JOB_ID{group}"] = str(int(job_id) + index)
            env[f"SLURM_JOB_NODELIST{group}"] = _hosts(component.nodes)
            env[f"SLURM_JOB_NUM_NODES{group}"] = str(component.nodes)
            env[f"SLURM_NTASKS{group}"] = str(component.num_tasks)
            env[f"SLURM_TASKS_PER_NODE{group}"] = _tasks_per_node(component)
            env[f"SLURM_CPUS_PER_TASK{group}"] = str(component.cpus_per_task)
    return env


def task_environments(components: Sequence[Component]) -> list[dict[str, str]]:
    """Give, by rank, the variables that each task has for itself.

    Tasks are dealt to a component's nodes as srun deals them: in blocks where they divide
    evenly, else in turn.
    """
    environments: list[dict[str, str]] = []
    first_node = 0
    for component in components:
        for task in range(component.num_tasks):
            if component.num_tasks % component.nodes == 0:
                node, local_rank = divmod(task, component.tasks_per_node)
            else:
                local_rank, node = divmod(task, component.nodes)
            environments.append(
                {
                    "SLURMD_NODENAME": HOST,
                    "SLURM_CPUS_PER_TASK": str(component.cpus_per_task),
                    "SLURM_LOCALID": str(local_rank),
                    "SLURM_NODEID": str(first_node + node),
                    "SLURM_PROCID": str(len(environments)),
                }
            )
        first_node += component.nodes
    return environments


def _hosts(nodes: int) -> str:
    return ",".join([HOST] * nodes)


def _tasks_per_node(component: Component) -> str:
    """Write the tasks of each node as Slurm does: ``2(x2),1``."""
    least, with_one_more = divmod(component.num_tasks, component.nodes)
    parts = [(least + 1, with_one_more), (least, component.nodes - with_one_more)]
    return ",".join(
        f"{tasks}(x{nodes})" if nodes > 1 else str(tasks) for tasks, nodes in parts if nodes
    )
