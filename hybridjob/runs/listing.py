"""The table of `hybridjob ls`: many runs, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridjob.runs.columns import lay_out
from hybridjob.runs.phrases import short_duration
from hybridjob.runs.state import RunState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hybridjob.runs.facts import Brief
    from hybridjob.runs.outside import Seen

_NAME = 1


def row_values(brief: Brief, seen: Seen, now: float) -> dict[str, Any]:
    """Gather what the list shows of one run, and what `ls --json` prints."""
    summary, progress = brief.summary or {}, brief.progress
    complete = summary.get("state") == "completed"
    submitted = brief.origin.submitted if brief.origin else brief.run.submitted
    waits_again = seen.state is RunState.REQUEUED
    return {
        "job_id": brief.run.job_id,
        "name": brief.run.name,
        "state": seen.state.value,
        "step": summary["final_step"] if complete else progress and progress.step,
        "of_steps": progress and progress.of_steps,
        "loss": summary["final_loss"] if complete else progress and progress.loss,
        "test": summary["test"] if complete else (progress.test if progress else {}),
        "submitted": submitted,
        "age_s": round(now - submitted, 1),
        "requeues": max(0, brief.num_lives - 1) + waits_again,
        "executor": "local" if brief.local else "slurm",
        "folder": str(brief.run.folder.path),
        "sweep": brief.origin.sweep if brief.origin else None,
        "sweep_values": brief.origin.sweep_values if brief.origin else {},
        "problem": seen.problem,
    }


def list_lines(rows: Sequence[dict[str, Any]], width: int | None) -> list[str]:
    """Lay rows out under their headings. In a sweep the values that differ have columns, too."""
    varying = _varying(rows)
    heads = ["id", "name", "state", "step", "loss", _test_name(rows), "age", "req"]
    cells = [[*heads[:2], *(key.rpartition(".")[2] for key in varying), *heads[2:]]]
    for row in rows:
        values = [str(row["sweep_values"].get(key, "-")) for key in varying]
        test = next(iter(row["test"].values()), None)
        cells.append(
            [
                row["job_id"], row["name"], *values, row["state"], _step(row),
                _number(row["loss"]), _number(test), short_duration(row["age_s"]),
                str(row["requeues"] or "-"),
            ]
        )  # fmt: skip
    shift = len(varying)
    right = [*range(2, 2 + shift), *(column + shift for column in range(3, 8))]
    gap = "  " if width is None else " "
    return lay_out(cells, width, flexible=_NAME, right=right, gap=gap)


def _varying(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Name the keys that the listed runs of a sweep differ in, if all are of one sweep."""
    if not rows or not rows[0]["sweep"] or len({row["sweep"] for row in rows}) > 1:
        return []
    keys = dict.fromkeys(key for row in rows for key in row["sweep_values"])
    return [key for key in keys if len({str(row["sweep_values"].get(key)) for row in rows}) > 1]


def _test_name(rows: Sequence[dict[str, Any]]) -> str:
    """Head the column of the test's first metric by its name, if it is the same for all."""
    names = {next(iter(row["test"])) for row in rows if row["test"]}
    return names.pop() if len(names) == 1 else "test"


def _step(row: dict[str, Any]) -> str:
    if row["step"] is None:
        return "-"
    of = row["of_steps"]
    return f"{row['step']}/{of}" if of and of != row["step"] else str(row["step"])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
