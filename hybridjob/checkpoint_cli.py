"""`hybridjob checkpoint ls|verify|export`. Imports no torch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hybridjob.checkpoint.export import Format, export_checkpoint
from hybridjob.checkpoint.manifest import (
    all_checkpoints,
    newest_valid,
    read_manifest,
    verify,
)
from hybridjob.errors import CheckpointError, ConfigError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, verify and export checkpoints.",
)
_Folder = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="A job's folder, its checkpoints folder, or one checkpoint."
    ),
]


@app.command("ls")
def list_checkpoints(folder: _Folder) -> None:
    """List checkpoints, oldest first."""
    table = Table(show_edge=False, pad_edge=False)
    for heading in ("checkpoint", "step", "epoch", "servers", "trainers", "MB", "age", "base"):
        table.add_column(heading, justify="left" if heading == "checkpoint" else "right")
    damage: list[str] = []
    for one in _checkpoints(folder):
        try:
            manifest = read_manifest(one)
        except CheckpointError as error:
            damage.append(str(error))
            table.add_row(one.name, *"-----", _age(time.time() - one.stat().st_mtime), "damaged")
            continue
        megabytes = sum(file.size for file in manifest.files) / 1e6
        numbers = (manifest.step, manifest.epoch, manifest.servers, manifest.trainers)
        age = _age(time.time() - one.stat().st_mtime)
        table.add_row(
            one.name,
            *(str(number) for number in numbers),
            f"{megabytes:,.1f}",
            age,
            manifest.base or "-",
        )
    Console().print(table)
    for text in damage:
        typer.echo(text, err=True)


@app.command("verify")
def verify_checkpoints(folder: _Folder) -> None:
    """Read every byte of every checkpoint; exit with 1 if any is damaged."""
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
    folder: _Folder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the files.")],
    *,
    kind: Annotated[
        str, typer.Option("--format", metavar="safetensors|parquet", help="Of the tables.")
    ] = "safetensors",
) -> None:
    """Write the newest good checkpoint's tables and dense layers as plain files."""
    kinds: dict[str, Format] = {"safetensors": "safetensors", "parquet": "parquet"}
    if kind not in kinds:
        raise ConfigError(f"--format is {kind!r}, but must be safetensors or parquet")
    chosen, damage = _newest(folder)
    for line in damage:
        typer.echo(f"passed over: {line}", err=True)
    for file in export_checkpoint(chosen, read_manifest(chosen), out, kinds[kind]):
        typer.echo(file)


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
            f"{folder} has no checkpoint: give a job's folder, such as runs/NAME/JOBID"
        )
    return found


def _parent(folder: Path) -> Path:
    return folder / "checkpoints" if (folder / "checkpoints").is_dir() else folder


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
