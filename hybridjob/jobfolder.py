"""The job's folder, `<run folder>/<job id>`: what lies where, and writes that are atomic.

A generation is named `<life>.<attempt>.<number>`: lives are counted by Slurm's requeues, attempts
by the steps that the batch script has started in a life, numbers by the tasks within a step.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridjob.errors import ConfigError, PeerError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class JobFolder:
    """Paths of one job."""

    path: Path

    @property
    def job_file(self) -> Path:
        """The resolved job file."""
        return self.path / "job.toml"

    @property
    def metrics(self) -> Path:
        """One JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def trace(self) -> Path:
        """What all ranks did when, for Perfetto."""
        return self.path / "trace.json"

    @property
    def summary(self) -> Path:
        """Written at the end."""
        return self.path / "summary.json"

    @property
    def tensorboard(self) -> Path:
        """Event files."""
        return self.path / "tensorboard"

    @property
    def checkpoints(self) -> Path:
        """One folder a step."""
        return self.path / "checkpoints"

    @property
    def vocabularies(self) -> Path:
        """Vocabularies built from the data."""
        return self.path / "vocabularies"

    @property
    def lives(self) -> Path:
        """One JSON object a life of the job: when, where and from which checkpoint it began."""
        return self.path / "lives.jsonl"

    @property
    def leaves(self) -> Path:
        """One JSON object for each time that rank 0 was asked to leave, and by what."""
        return self.path / "leaves.jsonl"

    @property
    def origin(self) -> Path:
        """How the job was submitted."""
        return self.path / "origin.json"

    @property
    def cancelled(self) -> Path:
        """When `hybridjob cancel` was asked to end the job."""
        return self.path / "cancelled.json"

    @property
    def tables(self) -> Path:
        """What the servers hold."""
        return self.path / "tables.json"

    def rank(self, rank: int) -> Path:
        """Where a rank's task says where it is and how its worker does."""
        return self.path / "ranks" / f"{rank:03d}.json"

    def log(self, rank: int, name: str, generation: str) -> Path:
        """Name the log of one rank and generation. name: master, ps0, trainer1, ..."""
        return self.path / "logs" / f"rank-{rank:03d}-{name}.gen-{generation}.log"

    def failures(self, life: int) -> list[Path]:
        """List the first causes of the generations of a life that have failed."""
        return sorted((self.path / "failures").glob(f"gen-{life}.*.json"))

    def generations(self) -> set[str]:
        """Name the generations of all lives in which the master was to be met."""
        paths = (self.path / "rendezvous").glob("gen-*.json")
        return {path.stem.removeprefix("gen-") for path in paths}

    def check_newest(self, generation: str) -> None:
        """Raise PeerError if a newer generation has begun: this one must write nothing more.

        It may be on a node that the cluster has lost sight of, alive and unaware.
        """
        names = (path.stem.removeprefix("gen-") for path in self.endpoint("*").parent.iterdir())
        newest = max((name for name in names if name[:1].isdigit()), key=generation_order)
        if generation_order(newest) > generation_order(generation):
            raise PeerError(f"generation {newest} has taken over from {generation}, which ends")

    def endpoint(self, generation: str) -> Path:
        """Where the master of this generation says how to reach it."""
        return self.path / "rendezvous" / f"gen-{generation}.json"

    def failure(self, generation: str) -> Path:
        """Where the first cause of this generation's end is kept."""
        return self.path / "failures" / f"gen-{generation}.json"

    def create(self) -> None:
        """Make the folder, for its owner's eyes only. Raises OSError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.path / "logs", self.path / "failures", self.vocabularies):
            folder.mkdir(exist_ok=True)


def generation_order(name: str) -> tuple[int, ...]:
    """Give what generations are ordered by: life, attempt and number of `0.1.2`."""
    return tuple(int(part) if part.isdigit() else 0 for part in (name + ".0.0").split(".")[:3])


def tail_of(path: Path, num_bytes: int) -> tuple[str, bool]:
    """Read the last bytes of a text file, and whether that is all of it. Raises OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - num_bytes))
        return file.read().decode("utf-8", errors="replace"), size <= num_bytes


def write_atomically(path: Path, text: str) -> None:
    """Write a file that readers see whole or not at all, and that survives a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Make a folder that others see when the block ends, whole, and not at all if it raises.

    Gives the folder to fill, beside path. Raises ConfigError if path is there and not empty.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise ConfigError(f"{path} is there and not empty: name another folder, or remove it first")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        shutil.rmtree(temporary)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename within a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if the file is not there (yet)."""
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return value
