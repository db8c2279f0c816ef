"""Nodes with a network, a host name and processes of their own, by Linux namespaces."""

import os
import subprocess
from pathlib import Path

from cluster_options import SEARCH_PATH
from cluster_processes import Reservation, wait_until

# PID 1 of a node: it waits until its network is there, and reaps what its tasks leave behind.
# Names come from the hosts file alone: asking a DNS server that is out of reach takes seconds.
_NODE = """
hostname "$1"
mount --bind "$2/hosts.$1" /etc/hosts
mount --bind "$2/nsswitch.conf" /etc/nsswitch.conf
read -r _
slurmd -D -N "$1" -f "$2/slurm.conf" &
wait; wait
"""


class NodeNetwork:
    """A bridge on this machine with the submitting side at .254, and a cable to each node."""

    def __init__(self, folder: Path, nodes: tuple[str, ...], reservation: Reservation) -> None:
        number = reservation.take("subnet", range(1, 250), _subnet_is_free)
        self._folder, self._nodes = folder, nodes
        self._prefix = f"10.87.{number}"
        self._bridge = f"sltest{number}"
        self.controller_address = f"{self._prefix}.254"
        self._namespaces: dict[str, Path] = {}
        self.addresses = {node: f"{self._prefix}.{10 + at}" for at, node in enumerate(nodes)}

    def up(self, host: str, loopback_node: str | None) -> None:
        """Make the bridge, and each node's hosts file."""
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self.controller_address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for node in self._nodes:
            own = {node: "127.0.1.1"} if node == loopback_node else {}
            names = {**self.addresses, **own, host: self.controller_address}
            lines = ["127.0.0.1 localhost", *(f"{names[name]} {name}" for name in names)]
            (self._folder / f"hosts.{node}").write_text("\n".join(lines) + "\n")
        switch = Path("/etc/nsswitch.conf").read_text(encoding="utf-8").splitlines()
        kept = [line for line in switch if not line.startswith("hosts:")]
        (self._folder / "nsswitch.conf").write_text("\n".join([*kept, "hosts: files", ""]))

    def command(self, node: str) -> list[str]:
        """Give the program that is a node; it waits for a line on its standard input."""
        # Not `ip netns exec`: that mounts a /sys without the cgroups that slurmd looks for.
        namespaces = ("--net", "--uts", "--mount", "--pid", "--fork", "--kill-child")
        arguments = ("bash", "-c", _NODE, "node", node, str(self._folder))
        return ["unshare", *namespaces, "--mount-proc", *arguments]

    def connect(self, node: str, process: subprocess.Popen[bytes]) -> None:
        """Lay the cable to a node that has started, and let it go on."""
        namespace = Path(f"/proc/{process.pid}/ns/net")
        ours = Path("/proc/self/ns/net").readlink()
        wait_until(f"{node} has a network", lambda: namespace.readlink() != ours, 10)
        self._namespaces[node] = namespace
        cable = self._cable(node)
        peer = ("peer", "name", "eth0", "netns", str(process.pid))
        wait_until(f"{node}'s old cable is gone", lambda: not _exists(cable), 10)
        _ip("link", "add", cable, "type", "veth", *peer)
        _ip("link", "set", cable, "master", self._bridge, "up")
        for arguments in (
            ("addr", "add", f"{self.addresses[node]}/24", "dev", "eth0"),
            ("link", "set", "lo", "up"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", self.controller_address),
        ):
            _run("nsenter", f"--net={namespace}", "ip", *arguments)
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.close()

    def cut(self, node: str, other: str) -> None:
        """Let nothing that one node sends reach another: its packets vanish without an answer."""
        self._route(node, "add", other)

    def heal(self, node: str, other: str) -> None:
        """Undo `cut`."""
        self._route(node, "del", other)

    def _route(self, node: str, action: str, other: str) -> None:
        route = ("route", action, "blackhole", f"{self.addresses[other]}/32")
        _run("nsenter", f"--net={self._namespaces[node]}", "ip", *route)

    def down(self) -> None:
        """Remove what a namespace's end does not take along."""
        for name in (*map(self._cable, self._nodes), self._bridge):
            if _exists(name):
                # A cable may go by itself, with its node, between the two lines.
                _run("ip", "link", "del", name, check=False)
        wait_until("the bridge is gone", lambda: not _exists(self._bridge), 10)

    def _cable(self, node: str) -> str:
        return f"{self._bridge}n{self._nodes.index(node)}"


def _exists(link: str) -> bool:
    return Path(f"/sys/class/net/{link}").exists()


def _subnet_is_free(number: int) -> bool:
    routes = _run("ip", "-o", "-4", "addr").stdout
    return f" 10.87.{number}." not in routes and not _exists(f"sltest{number}")


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={**os.environ, "PATH": SEARCH_PATH},
        capture_output=True,
        text=True,
        timeout=20,
        check=check,
    )
