"""The generations of a job: when each began and ended, and of what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hybridjob.failures import Failure, read_failure
from hybridjob.jobfolder import generation_order
from hybridjob.rank_logs import RankLog, rank_logs
from hybridjob.report.logs import host_of, saved_checkpoints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hybridjob.jobfolder import JobFolder
    from hybridjob.lives import Life
    from hybridjob.report.logs import SavedCheckpoint


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One life of the process group, in seconds since 1970.

    name: `<life>.<attempt>.<number>`. hosts: rank -> (name, host), of those that met
    the others.
    saved: its checkpoints, with the time at which each was there.
    """

    name: str
    start: float
    end: float
    failure: Failure | None = None
    hosts: Mapping[int, tuple[str, str]]
    saved: tuple[tuple[float, SavedCheckpoint], ...] = ()

    @property
    def life(self) -> int:
        """Which life of the job it belongs to."""
        return int(self.name.partition(".")[0])


def read_generations(folder: JobFolder, lives: list[Life]) -> list[Generation]:
    """Put together what the logs, the meetings and the failures tell, in order.

    Raises OSError where something may not be read.
    """
    logs = rank_logs(folder)
    names = {one.generation for one in logs} | {
        path.stem.removeprefix("gen-")
        for place in ("rendezvous", "failures")
        for path in (folder.path / place).glob("gen-*.json")
    }
    found: list[Generation] = []
    for name in sorted(names, key=generation_order):
        own = [one for one in logs if one.generation == name]
        start = _start(folder, name, lives, found[-1] if found else None, own)
        if start is not None:
            found.append(_generation(folder, name, own, start))
    return found


def _generation(folder: JobFolder, name: str, logs: list[RankLog], start: float) -> Generation:
    failure_file = folder.failure(name)
    failure = read_failure(failure_file)
    ends = [one.path.stat().st_mtime for one in logs]
    if failure is not None:
        ends = [failure_file.stat().st_mtime]
    hosts = {one.rank: (one.name, host) for one in logs if (host := host_of(one)) is not None}
    saved = [
        (start + checkpoint.after_s, checkpoint)
        for one in logs
        if one.rank == 0
        for checkpoint in saved_checkpoints(one)
    ]
    return Generation(
        name=name,
        start=start,
        end=max([start, *ends]),
        failure=failure,
        hosts=hosts,
        saved=tuple(saved),
    )


def _start(
    folder: JobFolder,
    name: str,
    lives: list[Life],
    before: Generation | None,
    logs: list[RankLog],
) -> float | None:
    """Tell when a generation began: the ranks' meeting, else the life or what went before."""
    meeting = folder.endpoint(name)
    if meeting.exists():
        return meeting.stat().st_mtime
    life, attempt, number = generation_order(name)
    begun = [one.time for one in lives if (one.life, one.attempt) == (life, attempt)]
    if number == 0 and begun:
        return begun[0]
    if before is not None:
        return before.end
    return min((one.path.stat().st_mtime for one in logs), default=None)


def hosts_of(generations: list[Generation]) -> dict[int, tuple[str, str]]:
    """Give rank -> (name, host), where each rank was last seen."""
    return {rank: where for one in generations for rank, where in one.hosts.items()}


def newest_failure(generations: list[Generation]) -> Failure | None:
    """Give the first cause of the newest generation that failed."""
    return next((one.failure for one in reversed(generations) if one.failure is not None), None)
