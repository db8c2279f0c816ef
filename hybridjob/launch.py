"""From a job file to a submitted job: components, script, executor. Imports no torch."""

from __future__ import annotations

import contextlib
import os
import shutil
import site
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hybridjob.data.fetch import ensure_local, resolve
from hybridjob.errors import ConfigError, LaunchError
from hybridjob.origin import Origin, new_contents
from hybridjob.task import run_task
from slurm.component import Component
from slurm.errors import SlurmError
from slurm.executor import HetExecutor
from slurm.local import LocalExecutor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hybridjob.config import Job, Resources
    from hybridjob.data.config import DataConfig
    from slurm.job import HetJob
    from slurm.local_job import LocalHetJob

MAX_ATTEMPTS = 3
"""Steps in one life of a job: a task that is killed together with its worker costs one."""
_LOCAL_GRACE_S = 20.0
ExecutorName = Literal["slurm", "local"]


def executor_name(value: str | None) -> ExecutorName | None:
    """Check the value of --executor. Raises ConfigError."""
    match value:
        case None | "slurm" | "local":
            return value
        case _:
            raise ConfigError(f"--executor is {value!r}, but must be slurm or local")


def code_folders_of(job_file: Path) -> list[Path]:
    """List the folders where a job file's own modules may lie."""
    return [Path.cwd(), job_file.absolute().parent]


def choose_executor(asked: ExecutorName | None) -> ExecutorName:
    """Take Slurm where there is one. Raises LaunchError that offers the local executor."""
    if asked is not None:
        return asked
    if shutil.which("sbatch") is None:
        raise LaunchError(
            "sbatch is not on the PATH, so this is no login node of a Slurm cluster. To train on "
            "this machine instead, add --executor local"
        )
    return "slurm"


def components_of(job: Job) -> list[Component]:
    """Give the job's components: the master's first, the trainers' last."""
    servers, trainers = job.ps.num_tasks, job.trainer.num_tasks
    parts = [("ps", "ps", job.ps, servers), ("trainer", "trainer", job.trainer, trainers)]
    if job.master is None:
        parts[0] = ("ps", "master+ps", job.ps, 1 + servers)
    else:
        parts.insert(0, ("master", "master", job.master, 1))
    components = []
    for section, name, resources, num_tasks in parts:
        with _mistakes_of(section):
            components.append(_component(job, name, resources, num_tasks=num_tasks))
    return components


def make_executor(
    job: Job,
    kind: ExecutorName,
    code_folders: Sequence[Path] = (),
    *,
    contents: Path | None = None,
    after: str | None = None,
) -> Any:
    """Make the executor that submits this job.

    code_folders: where the user's own modules lie, besides those on PYTHONPATH. contents: what the
    job's folder begins with. after: on Slurm, the id of a job whose end this one waits for.
    """
    folder = job.run_path / "%j"
    if after is not None:
        job = _waiting_for(job, after)
    environment = {**job.slurm.environment, "PYTHONPATH": _python_path(code_folders)}
    if kind == "local":
        return LocalExecutor(
            folder,
            components=components_of(job),
            job_name=job.name,
            environment=environment,
            grace_s=_LOCAL_GRACE_S,
            max_attempts=MAX_ATTEMPTS,
            contents=contents,
        )
    return HetExecutor(
        folder,
        components=components_of(job),
        job_name=job.name,
        setup=job.slurm.setup,
        environment=environment,
        python=job.slurm.python,
        task_python=job.slurm.task_python,
        signal_delay_s=job.slurm.signal_delay_s,
        max_attempts=MAX_ATTEMPTS,
        contents=contents,
    )


def script_of(job: Job, kind: ExecutorName, code_folders: Sequence[Path] = ()) -> str:
    """Give the text that would be submitted, byte for byte."""
    with _mistakes_of("job file"):
        script: str = make_executor(job, kind, code_folders).script()
    return script


def launch(
    job: Job,
    kind: ExecutorName,
    code_folders: Sequence[Path] = (),
    *,
    checkpoints: Path | None = None,
    after: str | None = None,
    **origin: Any,
) -> HetJob[Any] | LocalHetJob[Any]:
    """Submit a job. Raises LaunchError if it cannot be, with Slurm's own words.

    checkpoints: a folder, in the run folder, that the job's folder begins with. after: on Slurm,
    the id of a job whose end this one waits for. origin: more of the fields of Origin.
    """
    with _writing(job.run_path):
        job.run_path.mkdir(parents=True, exist_ok=True)
        probe = job.run_path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    ensure_local(job.data)
    # The tasks may run in another folder, under another home: they get every path in full.
    data = resolve(absolute_paths(job.data))
    job = job.model_copy(update={"data": data, "run_folder": str(job.run_path)})
    values = job.model_dump(mode="json", exclude_defaults=True)
    folders = list(dict.fromkeys(str(folder.resolve()) for folder in code_folders))
    with _writing(job.run_path):
        note = Origin(executor=kind, code_folders=folders, **origin)
        contents = new_contents(job, note, checkpoints)
    submitted: HetJob[Any] | LocalHetJob[Any]
    try:
        with _mistakes_of("job file"):
            executor = make_executor(job, kind, code_folders, contents=contents, after=after)
            submitted = executor.submit(run_task, values)
    except SlurmError as error:
        raise LaunchError(str(error)) from error
    finally:
        shutil.rmtree(contents, ignore_errors=True)  # moved into the job's folder, or of no use
    return submitted


@contextlib.contextmanager
def _writing(run_path: Path) -> Iterator[None]:
    """Tell that the run folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise LaunchError(
            f"cannot write the run folder {run_path}: {error.strerror}. Give another one by "
            "run_folder=PATH, on a file system that all nodes share"
        ) from error


def _waiting_for(job: Job, job_id: str) -> Job:
    given = job.slurm.flags.get("dependency")
    dependency = ",".join(str(one) for one in (given, f"afterany:{job_id}") if one)
    flags = {**job.slurm.flags, "dependency": dependency}
    return job.model_copy(update={"slurm": job.slurm.model_copy(update={"flags": flags})})


@contextlib.contextmanager
def _mistakes_of(section: str) -> Iterator[None]:
    """Tell what the slurm package refuses as a mistake in a section of the job file."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{section}: {error}") from error


def absolute_paths(data: DataConfig) -> DataConfig:
    """Make every path of the data absolute, as seen from the current folder."""

    def absolute(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(Path(path).expanduser().absolute()) for path in paths)

    joins = tuple(join.model_copy(update={"path": absolute(join.path)}) for join in data.join)
    columns = tuple(
        column.model_copy(update={"vocabulary": absolute((column.vocabulary,))[0]})
        if column.vocabulary
        else column
        for column in data.categorical
    )
    update = {"path": absolute(data.path), "test_path": absolute(data.test_path)}
    return data.model_copy(update={**update, "join": joins, "categorical": columns})


def _component(job: Job, name: str, resources: Resources, *, num_tasks: int) -> Component:
    return Component(
        name=name,
        nodes=resources.nodes,
        num_tasks=num_tasks,
        partition=resources.partition,
        account=resources.account or job.slurm.account,
        qos=resources.qos or job.slurm.qos,
        constraint=resources.constraint,
        mem=resources.mem,
        mem_per_cpu=resources.mem_per_cpu,
        time=resources.time or job.slurm.time,
        cpus_per_task=resources.cpus_per_task,
        gpus_per_node=resources.gpus_per_node,
        flags={**job.slurm.flags, **resources.flags},
        step_flags={**job.slurm.srun_flags, **resources.srun_flags},
    )


def _python_path(code_folders: Sequence[Path]) -> str:
    root = Path(__file__).resolve().parent.parent
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    installed |= {*site.getsitepackages(), site.getusersitepackages()}
    # An installed package is found anyway; its folder in front could hide the standard library.
    own = [] if str(root) in installed else [str(root)]
    inherited = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    folders = [*own, *(str(folder.resolve()) for folder in code_folders), *inherited]
    return os.pathsep.join(dict.fromkeys(folders))
