"""The role of a parameter server: the others call it, see hybridjob.tables.server."""

from __future__ import annotations

from hybridjob import mailbox


def run_server() -> bool:
    """Serve until the master says stop; that it lives is watched beside.

    Returns whether the run is complete.
    """
    while (complete := mailbox.stops.poll(timeout_s=60)) is None:
        pass
    return complete
