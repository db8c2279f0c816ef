"""What Slurm, or this machine, knows of runs. Nothing here takes longer than a few seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hybridjob.runs.state import RunState, decide_state
from slurm.command import run_command
from slurm.errors import CommandError
from slurm.heal import Repair, diagnose, heal
from slurm.local_process import LocalState, look_at_state
from slurm.overview import ComponentView, look_at_jobs, within
from slurm.state import JobState, fold_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hybridjob.runs.facts import Brief, Facts
    from slurm.query import Runner

DEADLINE_S = 4.0
"""Seconds for all questions of one command together."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run from outside. job_state: Slurm's word. problem: why nobody could be asked."""

    state: RunState
    job_state: JobState
    components: Mapping[int, ComponentView] = field(default_factory=dict)
    local: LocalState | None = None
    problem: str | None = None
    healed: str | None = None


def look_at(briefs: Sequence[Brief], *, run: Runner | None = None) -> dict[str, Seen]:
    """Look at runs: job id -> what was seen. Slurm is asked once for all that may still change."""
    run = run or within(DEADLINE_S)
    asked = [one for one in briefs if not one.local and not _is_complete(one)]
    overview = look_at_jobs((one.run.job_id for one in asked), run=run)
    problem = _short(overview.problems)
    seen = {}
    for one in briefs:
        if one.local:
            seen[one.run.job_id] = _local(one)
            continue
        views = overview.jobs.get(one.run.job_id, {})
        if views:
            state = fold_states({index: view.state for index, view in views.items()})
        else:
            unknown = problem is not None and not _is_complete(one)
            state = JobState.UNKNOWN if unknown else JobState.FORGOTTEN
        seen[one.run.job_id] = Seen(
            state=decide_state(one, state, _started(views)),
            job_state=state,
            components=views,
            problem=None if views or state is JobState.FORGOTTEN else problem,
        )
    return seen


def look_closely(facts: Facts, *, mend: bool, run: Runner | None = None) -> Seen:
    """Look at one run; if mend, repair a job that waits for a component which has ended.

    It asks Slurm about a run that is complete, too: it may still hold nodes.
    """
    brief = facts.brief
    if brief.local:
        return _local(brief)
    run = run or within(DEADLINE_S)
    seen = look_at([replace(brief, summary=None)], run=run)[brief.run.job_id]
    started = _started(seen.components)
    seen = replace(seen, state=decide_state(brief, seen.job_state, started))
    states = {index: view.state for index, view in seen.components.items()}
    size = None if facts.job is None else 2 + (facts.job.master is not None)
    if mend and diagnose(states, size) is Repair.REQUEUE:
        try:
            text = heal(brief.run.job_id, num_components=size, run=run).text
        except CommandError as error:
            text = f"it cannot be healed: {error}"
        seen = replace(seen, healed=text)
    return seen


def runner(total_s: float = DEADLINE_S) -> Runner:
    """Give what runs Slurm's commands within one deadline."""
    return within(total_s, run_command)


def _local(brief: Brief) -> Seen:
    run = brief.run
    state = look_at_state(run.job_id, run.folder.path / f"{run.job_id}_state.json")
    problem = None
    if state.state is JobState.UNKNOWN:
        problem = f"its processes are on {state.controller_host}: look from there"
    return Seen(
        state=decide_state(brief, state.state),
        job_state=state.state,
        local=state,
        problem=problem,
    )


def _started(views: Mapping[int, ComponentView]) -> float | None:
    return views[0].start if 0 in views else None


def _is_complete(brief: Brief) -> bool:
    return brief.summary is not None and brief.summary.get("state") == "completed"


def _short(problems: Iterable[str]) -> str | None:
    """Say in one line why Slurm did not answer."""
    return next((f"Slurm does not answer: {problem}" for problem in problems), None)
