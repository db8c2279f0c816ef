"""Processes of a cluster: what its daemons started is known by the SLURM_CONF they all carry."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_S = 0.05


class ClusterError(Exception):
    """The cluster did not do what a test needs of it."""


def wait_until(what: str, predicate: Callable[[], object], deadline_s: float) -> None:
    """Poll until it holds. Raises ClusterError, saying what was waited for."""
    deadline = time.monotonic() + deadline_s
    while not predicate():
        if time.monotonic() > deadline:
            raise ClusterError(f"not within {deadline_s:g} s: {what}")
        time.sleep(POLL_S)


def processes_with(**variables: str) -> Iterator[int]:
    """Find the living processes whose environment has all these values."""
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:  # it has ended, or is another user's
                continue
            if wanted <= set(environment.split(b"\0")):
                yield int(entry.name)


def kill_all(find: Callable[[], list[int]], deadline_s: float = 15) -> None:
    """SIGKILL what is found until nothing is: a process may start another one meanwhile."""

    def none_left() -> bool:
        found = find()
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not found

    wait_until("the cluster's processes are gone", none_left, deadline_s)


class Reservation:
    """Numbers that no other cluster on this machine uses while this object lives.

    A number is held by a socket name, which the system frees when this process ends, whatever way.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self, kind: str, numbers: range, is_free: Callable[[int], bool]) -> int:
        """Take a free number; starts anywhere, so that sessions rarely try the same ones."""
        start = int.from_bytes(os.urandom(4), "little") % len(numbers)
        for offset in range(len(numbers)):
            number = numbers[(start + offset) % len(numbers)]
            holder = socket.socket(socket.AF_UNIX)
            try:
                holder.bind(f"\0slurm-test-cluster/{kind}/{number}")
            except OSError:
                holder.close()
                continue
            self._held.append(holder)
            if is_free(number):
                return number
        raise ClusterError(f"no free {kind}")

    def port(self) -> int:
        """Take a TCP port below those that the system gives to outgoing connections."""
        return self.take("port", range(10_000, 30_000), _port_is_free)

    def release(self) -> None:
        """Let others have all numbers."""
        for holder in self._held:
            holder.close()
        self._held.clear()


def _port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
