"""`hybridjob prepare JOB.toml FOLDER`. Imports no torch."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import tomlkit
import typer

from hybridjob.config import BUILT_IN_MODELS
from hybridjob.data.fetch import ensure_local, resolve
from hybridjob.errors import ConfigError, DataError
from hybridjob.jobfile import parse_job, read_values
from hybridjob.jobfolder import new_folder, write_atomically
from hybridjob.runs.phrases import counted, duration

if TYPE_CHECKING:
    from hybridjob.data.conversion import Progress

_REPORT_EVERY_S = 5.0


def prepare(
    job_file: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job file.")],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the data goes: new, or empty.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value ...]", help="As for submit.", show_default=False),
    ] = None,
) -> None:
    """Read a job's data once, and write what training needs of it, which is read faster.

    The folder gets parquet files of ids and numbers, the vocabularies, and job.toml: the same job
    on this data. It trains to the same numbers, to the bit.
    """
    from hybridjob.data.conversion import convert  # noqa: PLC0415 - pyarrow: not for other commands

    values = read_values(job_file, overrides or [])
    job = parse_job(values, source=str(job_file))
    if job.data.format in ("synthetic", "tutorial"):
        raise ConfigError(
            f'there is nothing to prepare: data of format = "{job.data.format}" is made up'
        )
    signal.signal(signal.SIGTERM, _stop)
    final = folder.expanduser().absolute()
    progress = _ProgressLines()
    try:
        with new_folder(final) as part:
            ensure_local(job.data)
            data = resolve(job.data)
            section = convert(data, seed=job.seed, folder=part, final=final, report=progress)
            own = {key: value for key, value in values.items() if key != "data"}
            text = tomlkit.dumps({**own, "data": _section_in_toml(section)})
            write_atomically(part / "job.toml", text)
    except OSError as error:
        # Whoever reads has errors of their own.
        raise DataError(
            f"cannot write {folder}: {error.strerror or error}. Nothing of it was kept: make room, "
            "or name another folder"
        ) from error
    typer.echo(f"{progress.summary()}\ntrain on it: hybridjob submit {folder / 'job.toml'}")
    if job.model.factory not in BUILT_IN_MODELS:
        typer.echo(
            f"its module {job.model.factory.partition(':')[0]} is looked for beside that file, in "
            "the current folder and on PYTHONPATH"
        )


class _ProgressLines:
    """Writes a line to stderr every few seconds."""

    def __init__(self) -> None:
        self._began = self._reported = time.monotonic()
        self._newest: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        self._newest = progress
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY_S:
            self._reported = now
            share = progress.blocks / progress.of_blocks
            typer.echo(f"{share:.0%}: {self.summary()}", err=True)

    def summary(self) -> str:
        """Say what is written, and in which time."""
        assert self._newest is not None  # noqa: S101 - there are rows, so there was a block
        rows, bad = self._newest.written
        skipped = f", {bad:,} of them bad" if bad else ""
        return f"{counted(rows, 'row')}{skipped}, {duration(time.monotonic() - self._began)}"


def _section_in_toml(section: dict[str, Any]) -> Any:
    """Write each column of the data in a line of its own."""
    table = tomlkit.table()
    for key, value in section.items():
        if not isinstance(value, list):
            table.add(key, value)
            continue
        lines = tomlkit.array().multiline(True)
        for entry in value:
            line = tomlkit.inline_table()
            line.update(entry)
            lines.append(line)
        table.add(key, lines)
    return table


def _stop(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)
