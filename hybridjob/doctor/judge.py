"""From what the nodes reported to findings. Pure."""

from __future__ import annotations

import resource
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from hybridjob.doctor.finding import bad, ok, warn
from hybridjob.doctor.machine import judge_open_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hybridjob.doctor.finding import Finding

Report = dict[str, Any]
_SKEW_S = 2.0
_SOME = 3


def judge_nodes(
    reports: Sequence[Report], *, num_tasks: int, token: str, own: Report, rdma: bool
) -> list[Finding]:
    """Judge all ranks' reports. own: the versions where the job is submitted."""
    if not reports:
        return []
    return [
        _all_here(reports, num_tasks),
        _shared(reports, token),
        *_versions(reports, own),
        _links(reports),
        _names(reports),
        _clocks(reports),
        judge_open_files(*_fewest(reports, "nofile"), num_tasks),
        *([_memlock(reports)] if rdma else []),
    ]


def _all_here(reports: Sequence[Report], num_tasks: int) -> Finding:
    absent = sorted(set(range(num_tasks)) - {one["rank"] for one in reports})
    hosts = list(dict.fromkeys(one["host"] for one in reports))
    if absent:
        return bad(
            "ranks",
            f"{len(absent)} of {num_tasks} said nothing: {_few(absent)}",
            "see the logs of the doctor's job; perhaps their nodes do not see the run folder",
        )
    return ok("ranks", f"all {num_tasks} started, on {len(hosts)} nodes: {_few(hosts)}")


def _shared(reports: Sequence[Report], token: str) -> Finding:
    blind = [one["host"] for one in reports if one["token"] != token]
    blind += [one["host"] for one in reports if one["missed"]]
    if blind:
        return bad(
            "shared folder",
            f"what others write there is not seen on {_few(dict.fromkeys(blind))}",
            "set run_folder to a file system that all nodes share",
        )
    return ok("shared folder", "every rank reads and writes it, and sees the files of all others")


def _versions(reports: Sequence[Report], own: Report) -> list[Finding]:
    findings = []
    for name in ("python", "torch", "hybridjob"):
        hosts = defaultdict(list)
        for one in reports:
            hosts[one[name]].append(one["host"])
        shown = "; ".join(
            f"{version} on {_few(dict.fromkeys(on))}" for version, on in hosts.items()
        )
        if len(hosts) > 1 or "missing" in hosts:
            advice = "let slurm.setup or slurm.python choose one environment that all nodes see"
            findings.append(bad(name, shown, advice))
        elif own[name] not in hosts:
            advice = "nothing, if that is what you want; else slurm.setup or slurm.python"
            findings.append(warn(name, f"{shown}, but {own[name]} here", advice))
        else:
            findings.append(ok(name, f"{own[name]} on all ranks"))
    return findings


def _links(reports: Sequence[Report]) -> Finding:
    links = [(one["host"], link) for one in reports for link in one["links"]]
    dead = [f"{host} to {link['host']}" for host, link in links if link["by"] is None]
    if dead:
        return bad(
            "connections",
            f"{len(dead)} of {len(links)} failed: {_few(dead)}",
            "a firewall between partitions? Set network.interface to one that both have",
        )
    slowest = max((link["round_trip_s"] for _, link in links), default=0.0)
    return ok("connections", f"{len(links)} between nodes, slowest answer {1000 * slowest:.1f} ms")


def _names(reports: Sequence[Report]) -> Finding:
    """Tell of names that lead nowhere. That is no harm: addresses are tried as well."""
    odd = {
        f"{link['host']} is {link['resolved'] or 'unknown'} to {one['host']}"
        for one in reports
        for link in one["links"]
        if link["by"] is not None and link["by"] != link["resolved"]
    }
    if odd:
        return warn(
            "names",
            f"{_few(sorted(odd))}; other addresses worked",
            "nothing, or set network.master_address if ranks do not find the master",
        )
    return ok("names", "every node's name leads to it")


def _clocks(reports: Sequence[Report]) -> Finding:
    skews = [
        (abs(link["skew_s"]), one["host"], link["host"])
        for one in reports
        for link in one["links"]
        if "skew_s" in link
    ]
    worst, here, there = max(skews, default=(0.0, "", ""))
    if worst > _SKEW_S:
        advice = "tell the site; logs of different nodes will seem out of order"
        return warn("clocks", f"{here} and {there} differ by {worst:.1f} s", advice)
    return ok("clocks", f"no two nodes differ by more than {worst:.3f} s")


def _memlock(reports: Sequence[Report]) -> Finding:
    limit, where = _fewest(reports, "memlock")
    if limit != resource.RLIM_INFINITY:
        return warn(
            "memlock", f"{limit} bytes {where}, and network.rdma wants no limit",
            "ask the site for memlock unlimited in jobs, or set network.rdma = false",
        )  # fmt: skip
    return ok("memlock", "no limit")


def _fewest(reports: Sequence[Report], key: str) -> tuple[int, str]:
    """Give the least of a limit, where -1 is none, and where it was seen."""
    limited = [one for one in reports if one[key] != resource.RLIM_INFINITY]
    if not limited:
        return resource.RLIM_INFINITY, "on any node"
    least = min(limited, key=lambda one: int(one[key]))
    return int(least[key]), f"on {least['host']}"


def _few(things: Any) -> str:
    shown = [str(one) for one in things]
    more = f" and {len(shown) - _SOME} more" if len(shown) > _SOME else ""
    return ", ".join(shown[:_SOME]) + more
