"""How evenly the servers were asked, and waited for, as summary.json tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNEVEN = 1.5
_ALL_SHOWN = 8


def times_the_mean(counts: list[int]) -> list[float]:
    """Divide each server's ids by the mean of all; nothing if there were none."""
    total = sum(counts)
    return [count * len(counts) / total for count in counts] if total else []


def served_shares(counts: list[int]) -> str:
    """Write each server's share of the ids, `ps0 61%, ps1 39%`; of many, the largest and least."""
    total = sum(counts) or 1
    shares = [f"ps{server} {count / total:.0%}" for server, count in enumerate(counts)]
    if len(counts) <= _ALL_SHOWN:
        return ", ".join(shares)
    most, least = counts.index(max(counts)), counts.index(min(counts))
    return f"most {shares[most]}, least {shares[least]}, mean {1 / len(counts):.0%}"


def waited_most_for(waits: Mapping[str, float]) -> str:
    """Name the server whose answer came last for most of the time: `ps1 75% of 4.0 s`."""
    total = sum(waits.values())
    if not total:
        return "none"
    server = max(waits, key=lambda name: waits[name])
    return f"{server} {waits[server] / total:.0%} of {total:.1f} s"


def hint_of_imbalance(summary: Mapping[str, Any]) -> str | None:
    """Say what helps if one server of a run cut by ranges serves far more ids than the mean."""
    times = times_the_mean(summary.get("ids_served", []))
    if summary.get("sharding") != "range" or max(times, default=0) <= _UNEVEN:
        return None
    busiest = times.index(max(times))
    return (
        f"ps{busiest} serves {times[busiest]:.1f} times as many ids as the mean of the servers: "
        "in a new run, set training.sharding = 'hash'"
    )
