"""Is there memory for a snapshot? Asked of the system and of the job's control group."""

from __future__ import annotations

from pathlib import Path

_MARGIN_BYTES = 256 << 20
_MARGIN_SHARE = 1.1
_ROOT = Path("/")


def fits(num_bytes: int, *, processes: int = 1, available: int | None = None) -> bool:
    """Tell whether as many processes of this machine can each copy so many bytes, and some more.

    All of them look before any has begun to copy: so each counts the others' copies too.
    """
    have = available_bytes() if available is None else available
    return num_bytes * processes * _MARGIN_SHARE + _MARGIN_BYTES <= have


def available_bytes(root: Path = _ROOT) -> int:
    """Give the memory that may still be used: the least of the machine's and of every limit."""
    return min([_machine(root), *_control_groups(root)])


def _machine(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    return 0


def _control_groups(root: Path) -> list[int]:
    """Give what is left under each limit of this process's groups, of version 1 or 2."""
    found = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, files = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = mount / path.lstrip("/")
        while group != mount.parent:
            found += _left(group, *files)
            group = group.parent
    return found


def _left(group: Path, limit_file: str, usage_file: str, cache: str) -> list[int]:
    limit, usage = _read(group / limit_file).strip(), _read(group / usage_file).strip()
    if not limit.isdigit() or not usage.isdigit():  # `max`, or no such file
        return []
    statistics = dict(
        line.split(maxsplit=1) for line in _read(group / "memory.stat").splitlines() if line
    )
    # Files' pages that nobody has used lately are given back when memory is asked for.
    return [int(limit) - int(usage) + int(statistics.get(cache, "0"))]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # not every machine has every group mounted: then it sets no limit
        return ""
