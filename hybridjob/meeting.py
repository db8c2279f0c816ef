"""The store that all ranks meet at: the master opens it, the others find it."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from hybridjob import network
from hybridjob.errors import RendezvousError

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.config import Network
    from hybridjob.roles import Layout

POLL_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """What a rank must know to find the others."""

    rank: int
    local_rank: int
    layout: Layout
    host: str
    master_host: str
    file: Path
    """Where the master writes the store's address; new for each life and generation."""
    local_only: bool = False
    """Listen on the loopback interface alone: every rank is a process of this machine."""


def open_store(meeting: Meeting, settings: Network) -> tuple[dist.Store, str]:
    """Open the store on a port that the system picks, and publish where. Returns both."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((network.LOOPBACK if meeting.local_only else "", 0))
    listener.listen(1024)
    port = listener.getsockname()[1]
    store = dist.TCPStore(
        network.LOOPBACK,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
        timeout=timedelta(seconds=settings.rendezvous_timeout_s),
    )
    preferred = [settings.master_address] if settings.master_address else []
    addresses = preferred or network.reachable_addresses(
        [meeting.master_host, socket.gethostname()]
    )
    token = secrets.token_hex(16)
    store.set("token", token)
    machine = network.machine_identity()
    _write(meeting.file, {"port": port, "addresses": addresses, "machine": machine, "token": token})
    return store, network.LOOPBACK


def _write(file: Path, endpoint: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(endpoint), encoding="utf-8")
    temporary.replace(file)


def find_store(meeting: Meeting, settings: Network, deadline: float) -> tuple[dist.Store, str]:
    """Connect to the master's store. Returns it and the address under which it answers.

    deadline: of time.monotonic(). Raises RendezvousError naming the master.
    """
    endpoint = _read_when_written(meeting, deadline)
    failures = []
    for address in _candidates(endpoint, meeting, settings):
        try:
            store = _connect(address, endpoint, deadline)
        except RuntimeError as error:
            failures.append(f"{address}: {str(error).splitlines()[0]}")
            continue
        store.set_timeout(timedelta(seconds=settings.rendezvous_timeout_s))
        return store, address
    raise RendezvousError(
        f"rank {meeting.rank} on {meeting.host} cannot reach the master on {meeting.master_host}, "
        f"port {endpoint['port']} ({'; '.join(failures) or 'it has no address of its own'}): set "
        "network.master_address to a name or address that all nodes can reach"
    )


def _candidates(endpoint: dict[str, Any], meeting: Meeting, settings: Network) -> list[str]:
    if endpoint["machine"] == network.machine_identity():
        return [network.LOOPBACK]
    if settings.master_address:
        return [settings.master_address]
    # Our own view of the master's name first: on its own host it may stand for 127.0.1.1.
    seen_from_here = network.resolve(meeting.master_host)
    known = [] if seen_from_here is None else [seen_from_here]
    return list(dict.fromkeys([*known, *endpoint["addresses"]]))


def _connect(address: str, endpoint: dict[str, Any], deadline: float) -> dist.Store:
    left = timedelta(seconds=max(1.0, min(15.0, deadline - time.monotonic())))
    store = dist.TCPStore(address, endpoint["port"], is_master=False, timeout=left)
    if store.get("token").decode() != endpoint["token"]:
        raise RuntimeError("another job answers there")
    return store


def _read_when_written(meeting: Meeting, deadline: float) -> dict[str, Any]:
    while time.monotonic() < deadline:
        # Listing the folder makes NFS look again; a cached "no such file" could last a minute.
        if meeting.file.parent.is_dir() and meeting.file.name in os.listdir(meeting.file.parent):  # noqa: PTH208
            endpoint: dict[str, Any] = json.loads(meeting.file.read_text(encoding="utf-8"))
            return endpoint
        time.sleep(POLL_S)
    raise RendezvousError(
        f"rank {meeting.rank} on {meeting.host} waited for rank 0 (master on "
        f"{meeting.master_host}), which did not write {meeting.file}: see the master's log, and "
        "whether the run folder is on a file system that all nodes share"
    )
