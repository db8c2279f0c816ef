"""The numbers and tables of the page, as texts."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hybridjob.report.generations import hosts_of
from hybridjob.runs.phrases import counted, duration, in_bytes
from hybridjob.runs.served import times_the_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hybridjob.report.facts import Facts

Rows = list[list[str]]
GOOD = frozenset({"completed"})
BAD = frozenset({"failed", "timeout", "lost", "cancelled"})


def tone(state: str) -> str:
    """Choose the colour of a state's word: good, bad or plain."""
    return "good" if state in GOOD else "bad" if state in BAD else "plain"


def cause(facts: Facts) -> tuple[str, str]:
    """Tell why the run failed, and the last lines of the traceback; empty if it did not."""
    if tone(facts.state) != "bad":
        return "", ""
    text = str(facts.summary.get("cause") or facts.failure or "")
    detail = str(facts.summary.get("detail") or (facts.failure.detail if facts.failure else ""))
    return text or f"the job ended as {facts.state}, and no rank said why", detail


def tiles(facts: Facts) -> list[tuple[str, str, str]]:
    """Give the figures at the top: name, value, and what stands small below."""
    metrics, summary = facts.metrics, facts.summary
    last = metrics.last
    found: list[tuple[str, str, str]] = []
    if last is not None:
        total = max(last.of_steps, last.step)
        share = f"of {total:,} ({last.step / total:.0%})" if total else ""
        found.append(("step", f"{last.step:,}", f"{share}, epoch {last.epoch}"))
        loss = summary.get("final_loss", last.loss)
        found.append(("loss", "-" if loss is None else f"{loss:.4f}", "training, last report"))
    if metrics.scores:
        newest = metrics.scores[-1]
        for name, value in list(newest.values.items())[:2]:
            found.append((f"test {name}", f"{value:.4f}", f"at step {newest.step:,}"))
    if metrics.median_speed is not None:
        found.append(("samples/s", f"{metrics.median_speed:,.0f}", "median over the run"))
    if facts.start is not None and facts.end is not None:
        found.append(("time", duration(facts.end - facts.start), "first start to last sign"))
    found.append(_troubles(facts))
    if facts.balance is not None or "table_bytes" in summary:
        found.append(_memory(facts))
    return found


def _troubles(facts: Facts) -> tuple[str, str, str]:
    failed = sum(one.failure is not None for one in facts.generations)
    lives = len({one.life for one in facts.lives})
    redone = facts.metrics.redone
    small = f"{counted(max(lives - 1, 0), 'requeue')}, {counted(redone, 'step')} done again"
    return ("faults", str(failed), small)


def _memory(facts: Facts) -> tuple[str, str, str]:
    if "table_bytes" in facts.summary:
        return ("tables", in_bytes(facts.summary["table_bytes"]), "in the servers' memory")
    assert facts.balance is not None  # noqa: S101 - the caller has looked
    return (
        "tables",
        in_bytes(sum(facts.balance.totals)),
        f"in step {facts.balance.step:,}'s files",
    )


def resources(facts: Facts) -> Rows:
    """Say, for each component, what was asked for and, from accounting, used."""
    used = {one.component: one for one in facts.usage}
    rows = []
    for index, (name, asked) in enumerate(_components(facts.job)):
        usage = used.get(index)
        nodes, tasks = asked.get("nodes", 1), asked.get("tasks_per_node", 1)
        limit = asked.get("time") or facts.job.get("slurm", {}).get("time", "")
        memory = asked.get("mem") or (f"{asked['mem_per_cpu']} a core" if "mem_per_cpu" in asked
                                      else "the site's default")  # fmt: skip
        rows.append(
            [
                name,
                str(asked.get("partition", "the default")),
                f"{nodes} x {tasks}",
                str(asked.get("cpus_per_task", 1)),
                str(asked.get("gpus_per_node", "-")),
                str(memory),
                str(limit),
                usage.nodes if usage else "-",
                duration(usage.elapsed_s) if usage else "-",
                duration(usage.cpu_s) if usage else "-",
                in_bytes(usage.max_rss) if usage and usage.max_rss else "-",
            ]
        )
    return rows


def _components(job: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    if not job:
        return []
    own = [("master", job["master"])] if "master" in job else []
    servers = "servers" if own else "master, servers"
    return [*own, (servers, job.get("ps", {})), ("trainers", job.get("trainer", {}))]


def ranks(facts: Facts) -> Rows:
    """List rank, role and host, where each was last seen."""
    where = hosts_of(list(facts.generations))
    return [[str(rank), name, host] for rank, (name, host) in sorted(where.items())]


def faults(facts: Facts) -> Rows:
    """List what went wrong, oldest first."""
    return [
        [moment(one.end), one.name, str(one.failure), "goes on" if one.failure.again else "ends"]
        for one in facts.generations
        if one.failure is not None
    ]


def checkpoints(facts: Facts) -> Rows:
    """List the last twenty checkpoints that were saved."""
    saved = [pair for one in facts.generations for pair in one.saved][-20:]
    return [
        [
            moment(time),
            f"{one.step:,}",
            one.kind or "-",
            f"{one.megabytes:,.1f}",
            "-" if one.stall_s is None else f"{one.stall_s:.2f}",
            f"{one.seconds:.2f}",
        ]
        for time, one in saved
    ]


def ids_served(facts: Facts) -> Rows:
    """List how many ids each server has served; with one server there is nothing to compare."""
    counts = facts.summary.get("ids_served", [])
    times = times_the_mean(counts) if len(counts) > 1 else []
    return [
        [f"ps{server}", f"{counts[server]:,}", f"{one:.2f}"] for server, one in enumerate(times)
    ]


def moment(seconds: float | None) -> str:
    """Write a time as a person reads it."""
    if seconds is None:
        return "-"
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
