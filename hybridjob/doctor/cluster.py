"""What Slurm says before it is given the job: commands, configuration, nodes, its own test."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hybridjob.doctor.finding import bad, ok, warn
from slurm.command import run_command
from slurm.duration import parse_duration
from slurm.environment import scrubbed
from slurm.errors import CommandError
from slurm.options import shortest_time
from slurm.site import candidates, fits, gpus_asked, query_config, query_nodes, too_few_together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hybridjob.config import Job
    from hybridjob.doctor.finding import Finding
    from slurm.component import Component
    from slurm.query import Runner
    from slurm.site import SiteNode

_TIMEOUT_S = 10.0
_NEEDED = ("sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")


def check_commands() -> list[Finding]:
    """Check that Slurm's commands are there."""
    absent = [name for name in _NEEDED if shutil.which(name) is None]
    if absent:
        return [
            bad(
                "Slurm",
                f"not on the PATH: {', '.join(absent)}",
                "run this on a login node, or ask for this machine by --executor local",
            )
        ]
    return [ok("Slurm", "its commands are on the PATH")]


def ask_nodes(run: Runner = run_command) -> tuple[list[SiteNode], list[Finding]]:
    """Give the cluster's nodes, and a finding where it does not say."""
    try:
        nodes = query_nodes(timeout_s=_TIMEOUT_S, run=run)
    except CommandError as error:
        return [], [bad("nodes", str(error), "ask the site whether Slurm is up")]
    if not nodes:
        return [], [bad("nodes", "sinfo shows none", "ask the site which partitions you may use")]
    return nodes, []


def check_config(job: Job, run: Runner = run_command) -> list[Finding]:
    """Check that the controller starts het jobs, and how much time it leaves for saving."""
    try:
        config = query_config(timeout_s=_TIMEOUT_S, run=run)
    except CommandError as error:
        return [bad("controller", str(error), "ask the site whether slurmctld is up")]
    version = config.get("SLURM_VERSION", "of unknown version")
    return [ok("controller", f"Slurm {version} answers"), *judge_config(job, config)]


def judge_config(job: Job, config: Mapping[str, str]) -> list[Finding]:
    """Read the lines that matter to us out of the site's configuration."""
    findings: list[Finding] = []
    scheduler = config.get("SchedulerType", "sched/backfill")
    parameters = config.get("SchedulerParameters", "").split(",")
    if scheduler != "sched/backfill":
        findings.append(
            bad("het jobs", f"SchedulerType is {scheduler}, and only backfill starts them",
                "ask the site for sched/backfill, or submit with one component by hand")
        )  # fmt: skip
    elif "disable_hetjob_steps" in parameters:
        findings.append(
            bad("het jobs", "SchedulerParameters has disable_hetjob_steps",
                "ask the site to allow steps over all components (enable_hetjob_steps)")
        )  # fmt: skip
    else:
        select = config.get("SelectType", "unknown")
        findings.append(ok("het jobs", f"allowed ({scheduler}, {select})"))
    if job.checkpoint.every_steps == 0 and job.checkpoint.every_minutes == 0:
        findings.append(
            warn("checkpoints", "every_steps and every_minutes are 0: a lost node loses all work",
                 "set checkpoint.every_minutes, such as 10")
        )  # fmt: skip
    return findings


def check_partitions(components: Sequence[Component], nodes: Sequence[SiteNode]) -> list[Finding]:
    """Check that each component's partition exists, is up, and has nodes of that size."""
    findings: list[Finding] = []
    for component in components:
        findings += _check_partition(component, candidates(component, nodes), nodes)
    findings += _check_limit(components, nodes)
    wanted = {one.name: one.nodes for one in components}
    suitable = {
        one.name: {node.name for node in candidates(one, nodes) if fits(one, node)}
        for one in components
    }
    short = too_few_together(wanted, suitable)
    if short is None:
        total = sum(wanted.values())
        findings.append(ok("nodes", f"{total} wanted, and each component can have its own"))
    elif len(short[0]) > 1:
        names, total, there = " and ".join(short[0]), short[1], short[2]
        findings.append(
            bad("nodes", f"{names} want {total} nodes together, but only {there} fit; two "
                "components never share a node, so the job would wait for ever",
                "ask for fewer nodes, or for another partition of one of them")
        )  # fmt: skip
    return findings


def _check_partition(
    component: Component, own: Sequence[SiteNode], nodes: Sequence[SiteNode]
) -> list[Finding]:
    what = f"partition of {component.name}"
    if not own:
        there = ", ".join(sorted({node.partition for node in nodes}))
        asked = component.partition or "the default one"
        return [bad(what, f"{asked} is not there; there are {there}", "name one of these")]
    name = component.partition or f"{own[0].partition} (the default)"
    usable = [node for node in own if node.usable]
    if not usable:
        found = f"{name} has {len(own)} nodes, none of them up"
        return [bad(what, found, "wait, or choose another")]
    fitting = {node.name for node in usable if fits(component, node)}
    size = _size(component)
    if len(fitting) < component.nodes:
        best = (
            f"the largest: {max(node.cpus for node in usable)} cores, "
            f"{max(node.memory_mb for node in usable):,}M, {max(node.gpus for node in usable)} GPUs"
        )
        found = f"{name} has {len(fitting)} usable nodes with {size}, {component.nodes} are asked"
        return [bad(what, f"{found} ({best})", "ask for less of each, or another partition")]
    return [ok(what, f"{name}, {len(fitting)} usable nodes have {size}")]


def _size(component: Component) -> str:
    cores = component.tasks_per_node * component.cpus_per_task
    parts = [f"{cores} core" if cores == 1 else f"{cores} cores"]
    if component.mem is not None:
        parts.append(f"{component.mem} of memory")
    if gpus_asked(component):
        parts.append(f"{gpus_asked(component)} GPUs")
    return ", ".join(parts)


def _check_limit(components: Sequence[Component], nodes: Sequence[SiteNode]) -> list[Finding]:
    """Compare the job's time limit, the same for all components, with the partitions'."""
    text = shortest_time(components)
    if text is None:
        return [ok("time limit", "the partitions' own")]
    limit = parse_duration(text)
    findings = []
    for component in components:
        limits = [node.time_limit_s for node in candidates(component, nodes)]
        if not limits or None in limits:
            continue
        longest = max(one for one in limits if one is not None)
        if limit is None or limit > longest:
            findings.append(
                bad("time limit", f"{text} is asked, but {component.name}'s partition allows "
                    f"{longest // 3600}:{longest // 60 % 60:02d}:{longest % 60:02d}",
                    "lower slurm.time: the job saves, is requeued and goes on")
            )  # fmt: skip
    return findings or [ok("time limit", f"{text} is within the partitions'")]


def check_test_only(
    components: Sequence[Component],
    script: Callable[[Sequence[Component]], str],
    run: Runner = run_command,
) -> list[Finding]:
    """Let sbatch itself test each component, then the whole job. Nothing is submitted."""
    groups = [(f"sbatch, {one.name}", [one]) for one in components]
    if len(components) > 1:
        groups.append(("sbatch, whole job", list(components)))
    findings: list[Finding] = []
    for what, group in groups:
        finding = _test(what, script(group), run)
        findings.append(finding)
        if "did not answer" in finding.found:
            break  # the others would only wait as long
    return findings


def _test(what: str, script: str, run: Runner) -> Finding:
    with tempfile.TemporaryDirectory(prefix="hybridjob-") as folder:
        path = Path(folder) / "test.sbatch"
        path.write_text(script, encoding="utf-8")
        argv = ["sbatch", "--test-only", str(path)]
        try:
            said = run(argv, timeout_s=_TIMEOUT_S, env=scrubbed(os.environ))
        except CommandError as error:
            text = str(error).replace(str(path), "the job's script")
            reason = text.partition("ended with code ")[2].partition(": ")[2] or text
            return bad(what, reason, "correct what it names in the job file")
    lines = (said.stderr or said.stdout).strip().splitlines()
    return ok(what, lines[-1].removeprefix("sbatch: ") if lines else "would be taken")
