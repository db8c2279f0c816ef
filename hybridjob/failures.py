"""The first cause of a failure, kept apart from all that fails because of it."""

from __future__ import annotations

import json
import os
import re
import time
import traceback
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hybridjob.errors import HybridjobError, PeerError, RendezvousError
from hybridjob.jobfolder import read_json

if TYPE_CHECKING:
    from pathlib import Path

# A rank that only lost its peer lets the one that failed speak first.
CONSEQUENCE_DELAY_S = 3.0
_LOST_PEER = re.compile(
    r"connection (closed|reset)|broken pipe|timed out waiting|socket (timeout|closed)"
    r"|gloo/transport|connect(ion)? refused|remote process exited|recvValue failed|failed to recv",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Who failed and why."""

    rank: int
    role: str
    host: str
    message: str
    detail: str = ""
    """Last lines of the traceback, for what is no user's mistake."""
    consequence: bool = False
    """It only lost another rank, which could not say why."""
    kind: str = ""
    """The exception's class."""
    again: bool = True
    """Starting again may help: it is neither a mistake of the user nor the data's."""

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.role} on {self.host}): {self.message}"


def describe_error(error: BaseException, *, rank: int, role: str, host: str) -> Failure:
    """Turn an exception into a Failure: the message alone if it was written for a person."""
    if isinstance(error, HybridjobError):
        return Failure(
            rank=rank,
            role=role,
            host=host,
            message=str(error),
            consequence=is_consequence(error),
            kind=type(error).__name__,
            again=isinstance(error, PeerError | RendezvousError),
        )
    lines = traceback.format_exception(error)
    message = f"{type(error).__name__}: {error}".splitlines()[0]
    return Failure(
        rank=rank,
        role=role,
        host=host,
        message=message,
        detail="".join(lines)[-4000:].strip(),
        kind=type(error).__name__,
        consequence=is_consequence(error),
    )


def is_consequence(error: BaseException) -> bool:
    """Tell whether an exception says no more than that another rank is gone."""
    return isinstance(error, PeerError) or bool(
        isinstance(error, RuntimeError | OSError) and _LOST_PEER.search(str(error))
    )


def record_failure(path: Path, failure: Failure) -> bool:
    """Keep a failure unless an earlier one is kept. Returns whether it was the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if failure.consequence:
        deadline = time.monotonic() + CONSEQUENCE_DELAY_S
        while time.monotonic() < deadline and not path.exists():
            time.sleep(0.1)
    temporary = path.with_name(f".{path.name}.{failure.rank}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(asdict(failure), indent=1), encoding="utf-8")
    try:
        os.link(temporary, path)  # fails if it is there: the first one wins, on NFS too
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


def read_failure(path: Path) -> Failure | None:
    """Read the first cause, if one is kept."""
    values = read_json(path)
    return None if values is None else Failure(**values)
