"""All that a report says about one job, read from its folder alone (and Slurm, if it answers)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import tomlkit
from tomlkit.exceptions import TOMLKitError

from hybridjob.jobfolder import read_json
from hybridjob.lives import read_lives
from hybridjob.report.balance import read_balance
from hybridjob.report.generations import newest_failure, read_generations
from hybridjob.report.metrics import Metrics, read_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hybridjob.failures import Failure
    from hybridjob.jobfolder import JobFolder
    from hybridjob.lives import Life
    from hybridjob.report.balance import Balance
    from hybridjob.report.generations import Generation
    from slurm.usage import Usage

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of one job. notes: what could not be read, and why."""

    folder: JobFolder
    state: str
    job: Mapping[str, Any] = field(default_factory=dict)
    job_text: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    lives: tuple[Life, ...] = ()
    generations: tuple[Generation, ...] = ()
    balance: Balance | None = None
    usage: tuple[Usage, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The run's name, as in the job file."""
        return str(self.job.get("name") or self.folder.path.parent.name)

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self.folder.path.name

    @property
    def failure(self) -> Failure | None:
        """The first cause of the newest generation that failed."""
        return newest_failure(list(self.generations))

    @property
    def start(self) -> float | None:
        """When the job first ran, in seconds since 1970."""
        times = [one.time for one in self.lives] + [one.start for one in self.generations]
        return min(times, default=None)

    @property
    def end(self) -> float | None:
        """The last sign of life."""
        times = [one.end for one in self.generations]
        times += [self.metrics.last.time] if self.metrics.last else []
        return max(times, default=None)


def gather(
    folder: JobFolder, state: str, usage: tuple[Usage, ...] = (), problem: str | None = None
) -> Facts:
    """Read a job's folder. What is missing is left out; what cannot be read becomes a note.

    state: what became of the job. problem: why that is not known for sure, for a note.
    """
    notes = [problem] if problem else []
    text = _softly(notes, "job.toml", lambda: _text(folder), "")
    no_lives: list[Life] = []
    lives = _softly(notes, "lives.jsonl", lambda: read_lives(folder), no_lives)
    none_yet: list[Generation] = []
    generations = _softly(
        notes, "logs and failures", lambda: read_generations(folder, lives), none_yet
    )
    starts = [one.start for one in generations]
    return Facts(
        folder=folder,
        state=state,
        job=_softly(notes, "job.toml", lambda: tomlkit.parse(text).unwrap(), {}),
        job_text=text,
        summary=_softly(notes, "summary.json", lambda: read_json(folder.summary) or {}, {}),
        metrics=_softly(
            notes, "metrics.jsonl", lambda: read_metrics(folder.metrics, starts), Metrics()
        ),
        lives=tuple(lives),
        generations=tuple(generations),
        balance=_softly(notes, "checkpoints", lambda: read_balance(folder.checkpoints), None),
        usage=usage,
        notes=tuple(notes),
    )


def _text(folder: JobFolder) -> str:
    try:
        return folder.job_file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _softly(notes: list[str], what: str, read: Callable[[], T], otherwise: T) -> T:
    """Read one part of the folder; a report with the rest of it is better than none."""
    try:
        return read()
    except (OSError, ValueError, TypeError, KeyError, TOMLKitError) as error:
        notes.append(f"{what} could not be read: {type(error).__name__}: {error}")
        return otherwise
