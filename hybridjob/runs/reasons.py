"""Slurm's words for why a job waits, as a person would say it."""

from __future__ import annotations

_REASONS = {
    "Resources": "for nodes to become free",
    "Priority": "behind jobs of a higher priority",
    "Dependency": "for the end of another job",
    "DependencyNeverSatisfied": "for ever: its dependency cannot be met any more; cancel it",
    "BeginTime": "for its earliest start, after a requeue some seconds to minutes",
    "Licenses": "for licences",
    "Reservation": "for its reservation to begin",
    "PartitionConfig": "for ever: it asks for more than the partition has; cancel it",
    "PartitionDown": "for its partition, which is down",
    "PartitionInactive": "for its partition, which is inactive",
    "PartitionNodeLimit": "for ever: it asks for more nodes than the partition allows; cancel it",
    "PartitionTimeLimit": "for ever: slurm.time is above the partition's limit; cancel it",
    "ReqNodeNotAvail": "for nodes that are down, drained or reserved",
    "BadConstraints": "for ever: no node has the asked features; cancel it",
    "NodeDown": "for a node that is down",
    "launch failed requeued held": "held after a failed start",
}


def explain_reason(reason: str, job_id: str) -> str:
    """Put squeue's reason, such as `Resources` or `ReqNodeNotAvail, Reserved`, into words."""
    word = reason.strip("()").split(",")[0].strip()
    if word.startswith("JobHeld") or "held" in word:
        return f"held ({word}): scontrol release {job_id}"
    if word in _REASONS:
        return f"{_REASONS[word]} ({word})"
    if word.startswith(("QOS", "Assoc", "Max", "Grp")):
        return f"for a limit of your account or quality of service ({word})"
    return word
