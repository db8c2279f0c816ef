"""All that `hybridjob status` says of a run, as values: `--json` prints them as they are."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from hybridjob.roles import name_of
from hybridjob.runs.causes import first_cause, requeues, why_waiting
from hybridjob.runs.state import RunState
from slurm.state import JobState

if TYPE_CHECKING:
    from hybridjob.ranks import RankRecord
    from hybridjob.runs.facts import Facts
    from hybridjob.runs.outside import Seen
    from slurm.overview import ComponentView

_LEFT = 75


def status_values(facts: Facts, seen: Seen, now: float) -> dict[str, Any]:
    """Gather the values. Times are seconds since the epoch; what is not known is None."""
    brief = facts.brief
    origin = brief.origin
    return {
        "job_id": brief.run.job_id,
        "name": brief.run.name,
        "folder": str(brief.run.folder.path),
        "executor": "local" if brief.local else "slurm",
        "submitted": origin.submitted if origin else brief.run.submitted,
        "state": seen.state.value,
        "slurm_state": None if brief.local else seen.job_state.value,
        "problem": seen.problem,
        "healed": seen.healed,
        "job_file_problem": facts.job_problem,
        "cause": first_cause(facts, seen),
        "last_failure": str(facts.failures[-1][1]) if facts.failures else None,
        **_progress(facts, seen, now),
        "recovering": _recovering(facts, seen),
        "passed_over": facts.tables.get("passed_over", []),
        **_waiting(facts, seen),
        **_time(seen, now),
        "lives": brief.num_lives,
        "generations": facts.generations,
        "requeues": requeues(facts),
        "checkpoint": _checkpoint(facts),
        "tables": _tables(facts),
        "components": _components(facts, seen),
        "ranks": _ranks(facts, seen),
        "resumed_from": origin.resumed_from if origin else None,
        "resumed_step": origin.resumed_step if origin else None,
        "sweep": origin.sweep if origin else None,
        "sweep_values": origin.sweep_values if origin else {},
    }


def _progress(facts: Facts, seen: Seen, now: float) -> dict[str, Any]:
    summary, progress = facts.brief.summary or {}, facts.brief.progress
    complete = summary.get("state") == "completed"
    running = seen.state is RunState.RUNNING and _recovering(facts, seen) is None
    return {
        "step": summary["final_step"] if complete else progress and progress.step,
        "of_steps": progress and progress.of_steps,
        "epoch": progress and progress.epoch,
        "loss": summary["final_loss"] if complete else progress and progress.loss,
        "samples_per_s": progress and progress.samples_per_s,
        "steps_per_s": progress and progress.steps_per_s,
        "progress_time": progress and progress.time,
        "seconds_to_end": progress.seconds_to_end(now) if progress and running else None,
        "test": summary["test"] if complete else (progress.test if progress else {}),
        "state_digest": summary.get("state_digest"),
    }


def _recovering(facts: Facts, seen: Seen) -> dict[str, Any] | None:
    """Tell since when, and from which step, a new generation goes on; None once it reports."""
    newest, progress = facts.newest_start, facts.brief.progress
    if seen.state is not RunState.RUNNING or newest is None or progress is None:
        return None
    if progress.time >= newest.started:
        return None
    known = facts.tables.get("generation") == newest.generation
    saved = facts.checkpoints[-1].step if facts.checkpoints else 0
    return {
        "generation": newest.generation,
        "since": newest.started,
        "from_step": facts.tables["from_step"] if known else saved,
    }


def _waiting(facts: Facts, seen: Seen) -> dict[str, Any]:
    """Say why a job waits and until when: of several components, what the leader's view says."""
    waiting = [one for one in seen.components.values() if one.state is JobState.PENDING]
    starts = [one.start for one in waiting if one.start is not None]
    reasons = [one.reason for one in waiting if one.reason]
    return {
        "pending_reason": reasons[0] if reasons else None,
        "expected_start": max(starts) if starts and len(starts) == len(waiting) else None,
        "requeued_because": why_waiting(facts) if seen.state is RunState.REQUEUED else None,
    }


def _time(seen: Seen, now: float) -> dict[str, Any]:
    running = [one for one in seen.components.values() if one.state is JobState.RUNNING]
    limits = [
        one.start + one.limit_s - now
        for one in running
        if one.start is not None and one.limit_s is not None
    ]
    known = list(seen.components.values())
    return {
        "elapsed_s": max((one.elapsed_s or 0 for one in known), default=None),
        "limit_s": min((one.limit_s for one in known if one.limit_s is not None), default=None),
        "seconds_to_limit": max(0.0, min(limits)) if limits else None,
    }


def _checkpoint(facts: Facts) -> dict[str, Any] | None:
    if not facts.checkpoints:
        return None
    newest = facts.checkpoints[-1]
    return {
        "step": newest.step,
        "time": newest.time,
        "bytes": newest.num_bytes,
        "count": len(facts.checkpoints),
    }


def _tables(facts: Facts) -> dict[str, Any]:
    summary = facts.brief.summary or {}
    return {
        "bytes": facts.tables.get("table_bytes", summary.get("table_bytes")),
        "rows": facts.tables.get("rows"),
        "servers": facts.job.layout.num_servers if facts.job else None,
    }


def _components(facts: Facts, seen: Seen) -> list[dict[str, Any]]:
    """List the components: as Slurm lists them, and named as the job file does."""
    names = ["ps", "trainer"]
    if facts.job is not None:
        names = ["master+ps", "trainer"] if facts.job.master is None else ["master", *names]
    views: dict[int, ComponentView] = dict(seen.components)
    return [
        {
            "component": index,
            "name": names[index] if index < len(names) else None,
            "state": views[index].state.value,
            "nodes": views[index].nodes,
            "partition": views[index].partition,
            "reason": views[index].reason,
        }
        for index in sorted(views)
    ]


def _ranks(facts: Facts, seen: Seen) -> list[dict[str, Any]]:
    records = {one.rank: one for one in facts.ranks}
    count = facts.job.layout.num_tasks if facts.job else 0
    ranks: list[dict[str, Any]] = []
    for rank in sorted({*range(count), *records}):
        one = records.get(rank)
        named = name_of(rank, facts.job.layout) if facts.job and rank < count else ""
        ranks.append(
            {
                "rank": rank,
                "name": one.name if one else named,
                "host": one.host if one else None,
                "state": _rank_state(one, facts, seen),
                "pid": one.pid if one else None,
                "generation": one.generation if one else None,
                "started": one.started if one else None,
                "exit_code": one.exit_code if one else None,
            }
        )
    return ranks


def _rank_state(record: RankRecord | None, facts: Facts, seen: Seen) -> str:
    """Say how a rank does: never `running` for one whose job or process is known to be gone."""
    if record is None:
        return "never began" if seen.state.is_over else "waiting"
    if seen.state is RunState.STARTING:
        return "starting"  # what it has written is of an earlier life
    if record.exit_code is not None:
        return _ended(record, facts, record.exit_code)
    if seen.state is RunState.UNKNOWN:
        return "unknown"
    return "lost" if _is_lost(record, facts, seen) else "running"


def _is_lost(record: RankRecord, facts: Facts, seen: Seen) -> bool:
    """Tell whether a rank that did not say how it ended must have ended."""
    if seen.state.is_over:
        return True
    view = seen.components.get(record.component)
    if view is not None and (view.state.is_final or view.state is JobState.PENDING):
        return True
    return facts.brief.local and not _is_alive(record.pid)


def _ended(record: RankRecord, facts: Facts, code: int) -> str:
    if code == 0:
        return "done"
    if code == _LEFT:
        return "left"
    failed = {name: failure.rank for name, failure in facts.failures}
    if failed.get(record.generation, record.rank) != record.rank:
        return "ended"  # its task ended it, since another rank had failed
    return f"killed: {signal.Signals(-code).name}" if code < 0 else f"failed: code {code}"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
