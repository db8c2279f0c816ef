"""The logs of all ranks as one, by time; a line without a time stays with the one before."""

from __future__ import annotations

import heapq
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hybridjob.lives import read_lives
from hybridjob.logs import stamp_of, without_date
from hybridjob.rank_logs import rank_logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hybridjob.jobfolder import JobFolder
    from hybridjob.lives import Life
    from hybridjob.rank_logs import RankLog


@dataclass(frozen=True, order=True)
class Event:
    """Some lines of one rank's log: one with a time, and those without that follow it.

    when: `2026-12-01 03:48:52.123`, by which events are ordered, within a life.
    """

    life: int
    when: str
    rank: int
    name: str
    generation: str
    lines: tuple[str, ...]

    @property
    def role(self) -> str:
        """Give the role in the rank's name: trainer of trainer1."""
        return self.name.rstrip("0123456789")

    def text(self) -> str:
        """Write it for a person: no date, and rank and role also in front of what has neither."""
        first, *rest = self.lines
        own = f"{self.name}/{self.rank}"
        if stamp_of(first) is None:
            first = f"{self.when[11:19] or '--:--:--'} {own} {first}"
        shown = without_date(first)
        pad = " " * len("00:00:00 ")
        return "\n".join([shown, *(f"{pad}{own} {line}" for line in rest)])


@dataclass(frozen=True)
class Chosen:
    """Which ranks are asked for; None: all."""

    role: str | None = None
    rank: int | None = None

    def fits(self, rank: int, name: str) -> bool:
        """Tell whether a rank is asked for. role may be that of a rank, or its name: ps, ps1."""
        by_role = self.role is None or self.role in (name, name.rstrip("0123456789"))
        return by_role and (self.rank is None or rank == self.rank)


class LogReader:
    """Reads one log as it grows. What it gives are whole events but, at its end, perhaps one."""

    def __init__(self, log: RankLog) -> None:
        self._log = log
        self._life = int(log.generation.partition(".")[0])
        self._offset, self._when = 0, ""

    def events(self) -> Iterator[Event]:
        """Give what has been added since the last call, in the file's order."""
        lines: list[str] = []
        for line in self._new_lines():
            stamp = stamp_of(line)
            if stamp is not None:
                self._when = self._when or stamp.strip()  # of what comes before the first time
                if lines:
                    yield self._event(lines)
                lines, self._when = [], stamp.strip()
            lines.append(line)
        if lines:
            self._when = self._when or _written(self._log.path)
            yield self._event(lines)

    def _new_lines(self) -> Iterator[str]:
        with self._log.path.open("rb") as file:
            file.seek(self._offset)
            for raw in file:
                if not raw.endswith(b"\n"):
                    return  # it is still being written
                self._offset += len(raw)
                yield raw.decode("utf-8", errors="replace").rstrip("\r\n")

    def _event(self, lines: list[str]) -> Event:
        log = self._log
        return Event(self._life, self._when, log.rank, log.name, log.generation, tuple(lines))


class MergedLogs:
    """The logs of the chosen ranks of a job."""

    def __init__(self, folder: JobFolder, chosen: Chosen) -> None:
        self._folder, self._chosen = folder, chosen
        self._readers: dict[Path, LogReader] = {}
        self._life: tuple[int, int] | None = None

    def ranks(self) -> list[tuple[int, str]]:
        """List the ranks that have a log, chosen or not."""
        return sorted({(log.rank, log.name) for log in rank_logs(self._folder)})

    def new_events(self) -> Iterable[Event]:
        """Give what has been added since the last call, by life and time. Raises OSError."""
        for log in rank_logs(self._folder):
            if log.path not in self._readers and self._chosen.fits(log.rank, log.name):
                self._readers[log.path] = LogReader(log)
        return heapq.merge(*(reader.events() for reader in self._readers.values()))

    def headed(self, events: Iterable[Event]) -> Iterator[tuple[Event | None, str]]:
        """Give the texts of events, with a line of its own where another life or attempt begins."""
        lives = read_lives(self._folder)
        for event in events:
            key = (event.life, int(event.generation.split(".")[1]))
            if key != self._life:
                self._life = key
                yield None, _heading(key, lives)
            yield event, event.text()


def last_events(events: Iterable[Event], count: int | None) -> list[Event]:
    """Keep the last events that have, together, at least `count` lines."""
    if count is None:
        return list(events)
    kept, lines = [], 0
    for event in reversed(deque(events, maxlen=count)):
        if lines >= count:
            break
        kept.append(event)
        lines += len(event.lines)
    return kept[::-1]


def _written(path: Path) -> str:
    """Give the time of a file's last change, as log lines have it."""
    return time.strftime("%Y-%m-%d %H:%M:%S.000", time.localtime(path.stat().st_mtime))


def _heading(key: tuple[int, int], lives: list[Life]) -> str:
    number, attempt = key
    text = f"life {number}" + (f", attempt {attempt}" if attempt else "")
    one = next((one for one in lives if (one.life, one.attempt) == key), None)
    if one is not None:
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.time))
        text += f": began {began} on {one.host}, step {one.step}"
    return f"== {text} =="
