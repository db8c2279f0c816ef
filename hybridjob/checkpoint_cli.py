"""`hybridjob checkpoint ls|verify|export`. Imports no torch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hybridjob.checkpoint.manifest import (
    all_checkpoints,
    newest_valid,
    read_manifest,
    verify,
)
from hybridjob.errors import CheckpointError, ConfigError
from hybridjob.runs.columns import lay_out
from hybridjob.runs.find import find_run
from hybridjob.runs.outside import runner
from hybridjob.runs.phrases import in_bytes, short_duration
from hybridjob.runs_cli import RUNS, RunsFolder

if TYPE_CHECKING:
    from hybridjob.checkpoint.export import Format

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, verify and export checkpoints.",
)
_Where = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A job's id, a run's name, a path of either, of a checkpoints folder, or of one "
        "checkpoint.",
    ),
]


@app.command("ls")
def list_checkpoints(where: _Where, *, runs: RunsFolder = RUNS) -> None:
    """List checkpoints, oldest first."""
    folder = _folder_of(where, runs)
    heads = ["checkpoint", "step", "epoch", "servers", "trainers", "size", "age", "base"]
    rows, damage = [heads], []
    for one in _checkpoints(folder):
        age = short_duration(time.time() - one.stat().st_mtime)
        try:
            manifest = read_manifest(one)
        except CheckpointError as error:
            damage.append(str(error))
            rows.append([one.name, *"-----", age, "damaged"])
            continue
        size = in_bytes(sum(file.size for file in manifest.files))
        numbers = (manifest.step, manifest.epoch, manifest.servers, manifest.trainers)
        rows.append([one.name, *map(str, numbers), size, age, manifest.base or "-"])
    for line in lay_out(rows, None, flexible=7, right=range(1, 7)):
        typer.echo(line)
    for text in damage:
        typer.echo(text, err=True)


@app.command("verify")
def verify_checkpoints(where: _Where, *, runs: RunsFolder = RUNS) -> None:
    """Read every byte of every checkpoint; exit with 1 if any is damaged."""
    folder = _folder_of(where, runs)
    damaged = 0
    for one in _checkpoints(folder):
        try:
            manifest = verify(one)
        except CheckpointError as error:
            damaged += 1
            typer.echo(f"{one.name}: DAMAGED: {error}")
        else:
            size = sum(file.size for file in manifest.files)
            more = f", and its base {manifest.base}" if manifest.base else ""
            typer.echo(f"{one.name}: ok, {len(manifest.files)} files, {size:,} bytes{more}")
    if damaged:
        raise typer.Exit(1)


@app.command("export")
def export(
    where: _Where,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the files.")],
    *,
    kind: Annotated[
        str, typer.Option("--format", metavar="safetensors|parquet", help="Of the tables.")
    ] = "safetensors",
    runs: RunsFolder = RUNS,
) -> None:
    """Write the newest good checkpoint's tables and dense layers as plain files."""
    # numpy and pyarrow: not for all commands
    from hybridjob.checkpoint.export import export_checkpoint  # noqa: PLC0415

    kinds: dict[str, Format] = {"safetensors": "safetensors", "parquet": "parquet"}
    if kind not in kinds:
        raise ConfigError(f"--format is {kind!r}, but must be safetensors or parquet")
    chosen, damage = _newest(_folder_of(where, runs))
    for line in damage:
        typer.echo(f"passed over: {line}", err=True)
    for file in export_checkpoint(chosen, read_manifest(chosen), out, kinds[kind]):
        typer.echo(file)


def _folder_of(where: str, runs: Path) -> Path:
    """Give the folder that a person means: of a checkpoint, of several, or of a job."""
    path = Path(where)
    if (path / "manifest.json").exists() or all_checkpoints(_parent(path)):
        return path
    return find_run(where, runs, run=runner()).folder.path


def _newest(folder: Path) -> tuple[Path, list[str]]:
    if (folder / "manifest.json").exists():
        verify(folder)
        return folder, []
    _checkpoints(folder)
    found, damage = newest_valid(_parent(folder))
    if found is None:
        raise CheckpointError(f"{folder} has no checkpoint")
    return found, damage


def _checkpoints(folder: Path) -> list[Path]:
    if (folder / "manifest.json").exists():
        return [folder]
    found = all_checkpoints(_parent(folder))
    if not found:
        raise CheckpointError(
            f"{folder} has no checkpoint yet: see checkpoint.every_minutes and its log"
        )
    return found


def _parent(folder: Path) -> Path:
    return folder / "checkpoints" if (folder / "checkpoints").is_dir() else folder
