"""What one task of the doctor's own job looks at, on its node. Imports no torch.

The tasks meet through files in the shared folder: that they see each other's is itself a check.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import resource
import socket
import threading
import time
from pathlib import Path
from typing import Any

from hybridjob import __version__
from hybridjob.jobfolder import write_atomically
from hybridjob.network import interfaces
from slurm.placement import read_placement

TOKEN = "word"  # noqa: S105 - a file's name
_POLL_S = 0.2
_CONNECT_S = 5.0


def check_node(folder: str, deadline_s: float) -> int:
    """Say hello, find the others, connect to each node, and write down what came of it.

    Returns this task's rank. A task that misses others after deadline_s reports them.
    """
    place = read_placement(os.environ)
    meeting = Path(folder)
    deadline = time.monotonic() + deadline_s
    # Nobody from elsewhere is expected where all tasks are processes of one machine.
    where = "127.0.0.1" if "SLURM_LOCAL_EXECUTOR" in os.environ else ""
    with socket.create_server((where, 0)) as server:
        threading.Thread(target=_answer, args=(server,), daemon=True).start()
        hello = {
            **about_this_task(),
            "rank": place.rank,
            "host": place.host,
            "leads": place.local_rank == 0,
            "port": server.getsockname()[1],
            "token": _token(meeting),
        }
        write_atomically(meeting / f"hello-{place.rank}.json", json.dumps(hello))
        others = _wait_for(meeting, "hello", place.num_tasks, deadline)
        peers = [one for one in others if one["leads"] and one["rank"] != place.rank]
        report = {
            **hello,
            "missed": sorted(set(range(place.num_tasks)) - {one["rank"] for one in others}),
            "links": [_link(one) for one in peers] if hello["leads"] else [],
        }
        write_atomically(meeting / f"report-{place.rank}.json", json.dumps(report))
        # The others may still want to connect to this one.
        _wait_for(meeting, "report", place.num_tasks, deadline)
    return place.rank


def about_this_task() -> dict[str, Any]:
    """Give versions, limits and addresses of this process."""
    return {
        "python": platform.python_version(),
        "torch": _version("torch"),
        "hybridjob": __version__,
        "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "addresses": {name: one for name, one in interfaces().items() if one[:4] != "127."},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _token(meeting: Path) -> str:
    try:
        return (meeting / TOKEN).read_text(encoding="ascii")
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _wait_for(meeting: Path, kind: str, number: int, deadline: float) -> list[dict[str, Any]]:
    """Wait for a file of each rank; return those that came in time."""
    while True:
        # Listing the folder, not looking for the files: NFS remembers that they were not there.
        files = [one for one in meeting.iterdir() if one.match(f"{kind}-*.json")]
        if len(files) >= number or time.monotonic() > deadline:
            return [json.loads(one.read_text(encoding="utf-8")) for one in sorted(files)]
        time.sleep(_POLL_S)


def _answer(server: socket.socket) -> None:
    """Tell everyone who connects the time here."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return  # it is closed: this task is done
        with connection:
            connection.sendall(repr(time.time()).encode())


def _link(peer: dict[str, Any]) -> dict[str, Any]:
    """Try a peer's name, then its addresses; the first that answers also tells its time."""
    resolved = _resolve(peer["host"])
    tried = [*([resolved] if resolved else []), *peer["addresses"].values()]
    link = {"to": peer["rank"], "host": peer["host"], "resolved": resolved, "by": None}
    for address in dict.fromkeys(tried):
        before = time.time()
        try:
            with socket.create_connection((address, peer["port"]), timeout=_CONNECT_S) as one:
                there = float(one.makefile().read())
        except (OSError, ValueError):
            continue
        after = time.time()
        skew = there - (before + after) / 2
        return {**link, "by": address, "skew_s": skew, "round_trip_s": after - before}
    return link


def _resolve(host: str) -> str | None:
    try:
        return socket.gethostbyname(host)
    except OSError:
        return None
