"""submitit's Slurm executor for heterogeneous jobs."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from submitit.core import core, utils
from submitit.slurm import slurm as submitit_slurm

from slurm.command import run_command
from slurm.duration import parse_duration
from slurm.environment import scrubbed
from slurm.errors import CommandError, SubmissionError
from slurm.job import HetJob
from slurm.options import shortest_time
from slurm.script import check_folder, render_script
from slurm.submission import (
    count_tasks,
    folder_before_job,
    make_folder,
    make_job_folder,
    minutes_of,
    move_contents,
    new_private_file,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from slurm.component import Component

_SBATCH_TIMEOUT_S = 120.0


class HetExecutor(submitit_slurm.SlurmExecutor):
    """Submits functions as jobs of one or several components.

    folder: on a file system that all nodes share; `%j` in it is the job's id. Every task runs the
    function once, and its result is that rank's; where a step is lost to an accident, once in each
    of at most max_attempts steps (see slurm.batch). Nothing here needs Slurm before submit().
    python: the words, quoted for bash, of the script's Python. task_python: of the tasks', where it
    is another, as in a container.
    contents: a folder, on folder's file system, whose entries the first job finds in its own.
    Slurm has no arrays of het jobs: map_array and batch submit one job after the other.
    """

    job_class = HetJob

    def __init__(
        self,
        folder: str | Path,
        *,
        components: Sequence[Component],
        job_name: str,
        setup: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        python: str | None = None,
        task_python: str | None = None,
        signal_delay_s: int = 120,
        comment: str | None = None,
        max_attempts: int = 1,
        contents: Path | None = None,
    ) -> None:
        # Not SlurmExecutor's own: it raises where srun is not on the PATH, as on a laptop that
        # only shows the script.
        core.PicklingExecutor.__init__(self, folder)
        check_folder(str(self.folder))
        self.python = shlex.quote(sys.executable) if python is None else python
        self.task_python = self.python if task_python is None else task_python
        self.components = tuple(components)
        self.job_name = job_name
        self.setup = tuple(setup)
        self.environment = dict(environment or {})
        self.signal_delay_s = signal_delay_s
        self.comment = comment
        self.max_attempts = max_attempts
        self.contents = contents

    def script(self) -> str:
        """Return the batch script, byte for byte as submit() gives it to sbatch."""
        self._check_warning()
        return render_script(
            self.components,
            command=self._command,
            job_name=self.job_name,
            output=str(folder_before_job(self.folder) / "slurm-%j.log"),
            job_folder=str(self.folder),
            setup=self.setup,
            environment={**self.environment, "SUBMITIT_EXECUTOR": "slurm"},
            signal=f"USR2@{self.signal_delay_s}",
            comment=self.comment,
            python=self.python,
            max_attempts=self.max_attempts,
        )

    @property
    def _command(self) -> str:
        """What every task runs: submitit's own entry, by the tasks' Python."""
        return f"{self.task_python} -u -m submitit.core._submit {shlex.quote(str(self.folder))}"

    def _check_warning(self) -> None:
        """Raise ValueError if each life would be warned of its end as soon as it begins."""
        time = shortest_time(self.components)
        limit_s = None if time is None else parse_duration(time)
        if limit_s is not None and limit_s <= self.signal_delay_s:
            raise ValueError(
                f"the shortest time limit is {time} ({limit_s} s), but signal_delay_s = "
                f"{self.signal_delay_s} asks for a warning that long before it: give more time, "
                "or a smaller signal_delay_s"
            )

    def _internal_process_submissions(
        self, delayed_submissions: list[utils.DelayedSubmission]
    ) -> list[core.Job[Any]]:
        return [self._submit_one(delayed) for delayed in delayed_submissions]

    def _submit_one(self, delayed: utils.DelayedSubmission) -> HetJob[Any]:
        """Write the pickle and the script, submit, and move both to the job's folder.

        The job may start before its pickle is in place: submitit's task waits for it.
        """
        time = shortest_time(self.components)
        limit_s = None if time is None else parse_duration(time)
        delayed.set_timeout(minutes_of(limit_s), self.max_num_timeout)
        text = self.script()
        parent = folder_before_job(self.folder)
        make_folder(parent)
        script_file = new_private_file(parent, ".sh")
        pickle_file = new_private_file(parent, ".pkl")
        try:
            script_file.write_text(text, encoding="utf-8")
            delayed.dump(pickle_file)
            job_id = _sbatch(script_file)
            job: HetJob[Any] = self.job_class(
                self.folder, job_id, list(range(count_tasks(self.components)))
            )
            make_job_folder(job.paths.folder)
            move_contents(self.contents, job.paths.folder)
            job.paths.move_temporary_file(script_file, "submission_file")
            job.paths.move_temporary_file(pickle_file, "submitted_pickle")
        finally:
            script_file.unlink(missing_ok=True)
            pickle_file.unlink(missing_ok=True)
        return job

    def _internal_update_parameters(self, **kwargs: Any) -> None:
        raise ValueError(
            f"{', '.join(sorted(kwargs))}: the resources of a het job are given as components, "
            "when the executor is made"
        )


def _sbatch(script_file: Path) -> str:
    """Submit a script; return the job's id. Raises SubmissionError with sbatch's own words."""
    try:
        result = run_command(
            ["sbatch", "--parsable", str(script_file)],
            timeout_s=_SBATCH_TIMEOUT_S,
            env=scrubbed(os.environ),
        )
    except CommandError as error:
        raise SubmissionError(f"Slurm did not take the job: {error}") from error
    # "id", or "id;cluster" where there are several; a site's plugin may print lines before it.
    lines = result.stdout.split()
    job_id = lines[-1].partition(";")[0] if lines else ""
    if not job_id.isdigit():
        raise SubmissionError(f"sbatch printed {result.stdout!r}, in which there is no job id")
    return job_id
