"""What the local executor needs of this machine."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

from hybridjob.doctor.finding import ok, warn

if TYPE_CHECKING:
    from hybridjob.config import Job
    from hybridjob.doctor.finding import Finding

# Each rank holds a connection to each other rank several times over, and the files of its data.
FILES_A_RANK = 64
FEWEST_FILES = 1024


def check_cores(job: Job) -> Finding:
    """Compare the cores that the tasks ask for with those that this process may use."""
    have = len(os.sched_getaffinity(0))
    asked = (1 + job.ps.num_tasks) * job.ps.cpus_per_task
    asked += job.trainer.num_tasks * job.trainer.cpus_per_task
    found = f"{asked} asked by {job.layout.num_tasks} tasks, {have} here"
    if asked > 2 * have:
        return warn("cores", found, "it will run, slowly: lower tasks_per_node or cpus_per_task")
    return ok("cores", found)


def memory_of_machine_mb() -> int:
    """Tell how much memory this machine has, in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20


def check_open_files(num_tasks: int) -> Finding:
    """Compare the limit of open files with what ranks that all know each other need."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return judge_open_files(soft, "here", num_tasks)


def judge_open_files(soft: int, where: str, num_tasks: int) -> Finding:
    """Judge a limit that was read on some machine."""
    wanted = max(FEWEST_FILES, FILES_A_RANK * num_tasks)
    found = f"{'no limit' if soft == resource.RLIM_INFINITY else soft} {where}, {wanted} advised"
    if soft != resource.RLIM_INFINITY and soft < wanted:
        return warn("open files", found, f'add setup = ["ulimit -n {wanted}"] to [slurm]')
    return ok("open files", found)
