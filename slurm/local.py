"""The local executor: one process a task on this machine, with a het step's variables."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submitit.core import core, utils

from slurm.duration import parse_duration
from slurm.environment import scrubbed
from slurm.local_environment import HOST, job_environment, task_environments
from slurm.local_job import LocalHetJob
from slurm.local_process import start_controller
from slurm.options import shortest_time
from slurm.script import check_folder
from slurm.submission import count_tasks, make_job_folder, minutes_of, move_contents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurm.component import Component


class LocalExecutor(core.Executor):
    """Runs functions as HetExecutor does, on this machine.

    Every task is a process that runs what it would under srun, so that a task cannot tell the
    difference but by SLURM_LOCAL_EXECUTOR=1. When one fails the others get SIGTERM, and SIGKILL
    after grace_s; then all are started again, up to max_attempts times in all, or, if a task has
    written `requeue` to the file exit_wish of the job's folder, in another life. No task outlives
    the process that submitted it. contents: as HetExecutor's.
    """

    job_class = LocalHetJob

    def __init__(
        self,
        folder: str | Path,
        *,
        components: Sequence[Component],
        job_name: str,
        environment: Mapping[str, str] | None = None,
        python: str | None = None,
        grace_s: float = 5.0,
        max_attempts: int = 1,
        contents: Path | None = None,
    ) -> None:
        super().__init__(folder)
        check_folder(str(self.folder))
        if not components:
            raise ValueError("a job needs at least one component")
        self.components = tuple(components)
        self.job_name = job_name
        self.environment = dict(environment or {})
        self.python = shlex.quote(sys.executable) if python is None else python
        self.grace_s = grace_s
        self.max_attempts = max_attempts
        self.contents = contents

    def script(self) -> str:
        """Describe what submit() starts, as a script for a person to read."""
        lines = ["#!/bin/bash", f"# {self.job_name}: {count_tasks(self.components)} processes here"]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in self.environment.items()]
        tasks = iter(task_environments(self.components))
        for component in self.components:
            lines += ["", f"# {component.name}"]
            for _ in range(component.num_tasks):
                variables = next(tasks)
                rank, local = variables["SLURM_PROCID"], variables["SLURM_LOCALID"]
                lines.append(
                    f"SLURM_PROCID={rank} SLURM_LOCALID={local} {shlex.join(self._argv)} &"
                )
        return "\n".join([*lines, "", "wait  # one fails: all are ended", ""])

    @property
    def _argv(self) -> list[str]:
        command = shlex.split(self.python)
        return [*command, "-u", "-m", "submitit.core._submit", str(self.folder)]

    def _internal_process_submissions(
        self, delayed_submissions: list[utils.DelayedSubmission]
    ) -> list[core.Job[Any]]:
        return [self._submit_one(delayed) for delayed in delayed_submissions]

    def _submit_one(self, delayed: utils.DelayedSubmission) -> LocalHetJob[Any]:
        time_text = shortest_time(self.components)
        limit_s = None if time_text is None else parse_duration(time_text)
        delayed.set_timeout(minutes_of(limit_s), 3)
        job: LocalHetJob[Any] = self.job_class(
            self.folder, _new_job_id(), list(range(count_tasks(self.components)))
        )
        folder = job.paths.folder
        make_job_folder(folder)
        move_contents(self.contents, folder)
        delayed.dump(job.paths.submitted_pickle)
        start_controller(self._spec(job), folder / f"{job.job_id}_controller.log")
        return job

    def _spec(self, job: LocalHetJob[Any]) -> dict[str, Any]:
        """Describe the job to its controller."""
        folder = job.paths.folder
        tasks = []
        for rank, variables in enumerate(task_environments(self.components)):
            paths = utils.JobPaths(self.folder, job_id=job.job_id, task_id=rank)
            tasks.append(
                {
                    "argv": self._argv,
                    "environment": variables,
                    "stdout": str(paths.stdout),
                    "stderr": str(paths.stderr),
                }
            )
        return {
            "job_id": job.job_id,
            "state_file": str(job.state_file),
            "wish_file": str(folder / "exit_wish"),
            "grace_s": self.grace_s,
            "max_attempts": self.max_attempts,
            "parent_pid": os.getpid(),
            "environment": {
                **scrubbed(os.environ),
                **self.environment,
                **job_environment(self.components, job_id=job.job_id, job_name=self.job_name),
                "HETJOB_EXIT_WISH": str(folder / "exit_wish"),
                "SLURM_SUBMIT_DIR": str(Path.cwd()),
                "SLURM_SUBMIT_HOST": HOST,
            },
            "tasks": tasks,
        }


def _new_job_id() -> str:
    """Make an id that is a number, as Slurm's are, sorts by time, and no other submit gets."""
    return time.strftime("%Y%m%d%H%M%S") + f"{secrets.randbelow(10**6):06d}"
