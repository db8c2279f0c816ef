"""Which network interface to use, and under which address this machine can be reached."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path

from hybridjob.errors import ConfigError, RendezvousError

_SIOCGIFADDR = 0x8915
LOOPBACK = "127.0.0.1"


def machine_identity() -> str:
    """Tell machines, and network namespaces of one machine, apart."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"  # noqa: PTH116 - not a regular file


def interfaces() -> dict[str, str]:
    """Name -> IPv4 address of each interface that has one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                reply = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue  # an interface without an IPv4 address
            found[name] = socket.inet_ntoa(reply[20:24])
    return found


def source_address(destination: str) -> str:
    """Tell the address of this machine from which packets to a destination leave.

    Raises RendezvousError if there is no route.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((destination, 9))  # connecting a datagram socket sends nothing
        except OSError as error:
            raise RendezvousError(
                f"no route from {socket.gethostname()} to {destination} ({error.strerror}): set "
                "network.interface or network.master_address"
            ) from error
        address: str = probe.getsockname()[0]
    return address


def interface_towards(destination: str) -> str:
    """Name the interface through which packets to a destination leave.

    Raises RendezvousError if there is no route.
    """
    own = source_address(destination)
    for name, address in interfaces().items():
        if address == own:
            return name
    raise RendezvousError(f"no interface of {socket.gethostname()} has the address {own}")


def check_interface(name: str) -> None:
    """Raise ConfigError, listing those there are, if this machine has no such interface."""
    have = interfaces()
    if name not in have:
        raise ConfigError(
            f"network.interface is {name!r}, but {socket.gethostname()} has "
            f"{', '.join(f'{key} ({value})' for key, value in have.items())}"
        )


def use_interface(name: str) -> None:
    """Make gloo, TensorPipe and NCCL use one interface, unless the user has set theirs."""
    for variable in ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(variable, name)


def reachable_addresses(preferred: list[str]) -> list[str]:
    """List the addresses to try for a machine, best first: names that resolve, then its own.

    preferred: names or addresses that others may know this machine by.
    """
    own = [address for address in interfaces().values() if not address.startswith("127.")]
    resolved = [address for name in preferred if (address := resolve(name))]
    return list(dict.fromkeys(resolved + own))


def resolve(name: str) -> str | None:
    """Look a name up; None if it is unknown or stands for this machine's loopback."""
    try:
        address = socket.gethostbyname(name)
    except OSError:
        return None
    return None if address.startswith("127.") else address
