"""Why a run failed, and why it was requeued, as far as anyone has said. Pure but for one log."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from hybridjob.jobfolder import tail_of
from hybridjob.runs.state import RunState
from slurm.state import JobState

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.lives import Leave, Life
    from hybridjob.runs.facts import Facts
    from hybridjob.runs.outside import Seen

_TAIL_BYTES = 8192
_SIGNALS = {
    "SIGUSR2": "warned by USR2, which Slurm sends when the time limit is near",
    "SIGTERM": "Slurm ended it (preemption, or scontrol requeue)",
    "SIGINT": "it was interrupted",
}


def first_cause(facts: Facts, seen: Seen) -> dict[str, Any] | None:
    """Give the first cause of a run that has not ended well: text, rank, role, host, generation.

    None for a run that goes on, is complete or was cancelled by a person.
    """
    if seen.state is RunState.CANCELLED and seen.local is not None and seen.local.cause_error:
        return _of_no_rank(seen.local.cause_error)
    if seen.state not in (RunState.FAILED, RunState.TIMEOUT, RunState.LOST):
        return None
    summary = facts.brief.summary or {}
    generation, failure = facts.failures[-1] if facts.failures else (None, None)
    if failure is not None and (not summary or summary.get("cause") == str(failure)):
        text = str(failure)
        if failure.consequence:  # what was lost could not say why
            text = f"{_slurms_word(seen)}; {text}"
        return {
            "text": text,
            "rank": failure.rank,
            "role": failure.role,
            "host": failure.host,
            "generation": generation,
        }
    return _of_no_rank(summary.get("cause") or _unsaid(facts, seen))


def _of_no_rank(text: str) -> dict[str, Any]:
    return {"text": text, "rank": None, "role": None, "host": None, "generation": None}


def requeues(facts: Facts) -> list[dict[str, Any]]:
    """List the lives after the first: when and where each began, and why the one before ended."""
    first_of_each: dict[int, Life] = {}
    for one in facts.lives:
        first_of_each.setdefault(one.life, one)
    numbers = sorted(first_of_each)
    return [
        {
            "life": life,
            "time": first_of_each[life].time,
            "host": first_of_each[life].host,
            "step": first_of_each[life].step,
            "why": _why_ended(before, facts),
        }
        for before, life in itertools.pairwise(numbers)
    ]


def why_waiting(facts: Facts) -> str | None:
    """Say why a requeued run's newest life has ended; None if it has had none."""
    return _why_ended(facts.lives[-1].life, facts) if facts.lives else None


def _why_ended(life: int, facts: Facts) -> str:
    leaves: list[Leave] = [one for one in facts.leaves if one.life == life]
    if leaves:
        return _SIGNALS.get(leaves[-1].signal or "", "another rank was warned")
    failed = [one for name, one in facts.failures if name.split(".")[0] == str(life)]
    if failed:
        return f"after a failure: {failed[-1]}"
    return "no rank could say why (a lost node, or killed at once)"


def _slurms_word(seen: Seen) -> str:
    if seen.state is RunState.LOST and seen.local is not None:
        return "the local controller, or the submit that it belongs to, was killed"
    return f"the job ended as {seen.job_state.value}"


def _unsaid(facts: Facts, seen: Seen) -> str:
    """Say what can be said where no rank has: how Slurm ended it, and the last words of a log."""
    if seen.state is RunState.TIMEOUT:
        return "Slurm ended it at its time limit"
    run = facts.brief.run
    if facts.brief.local and seen.local is not None and seen.local.cause_error:
        return seen.local.cause_error
    logs = [
        run.folder.path / f"{run.job_id}_0_log.err",
        run.folder.path.parent / f"slurm-{run.job_id}.log",
        run.folder.path / f"{run.job_id}_controller.log",
    ]
    word = _slurms_word(seen) if seen.job_state is not JobState.FORGOTTEN else "no rank said why"
    for log in logs:
        line = _last_line(log)
        if line:
            return f"{word}; the last line of {log}: {line}"
    return word


def _last_line(log: Path) -> str:
    try:
        lines = tail_of(log, _TAIL_BYTES)[0].split("\n")
    except OSError:  # it is not there, and another log may be
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
