"""Calls between ranks: the one place that knows the transport, torch RPC over TensorPipe."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from torch.distributed import rpc
from torch.futures import Future

from hybridjob.errors import PeerError, TableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hybridjob.rendezvous import World

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["Future", "Pending", "call", "call_each", "deferred", "start_call"]

_REMOTE_TABLE_ERROR = re.compile(r"TableError\((['\"])(?P<text>.*?)\1\)", re.DOTALL)


class Pending:
    """A call on its way."""

    def __init__(self, future: Future[Any], callee: str, what: str) -> None:
        self._future, self._callee, self._what = future, callee, what

    def wait(self) -> Any:
        """Wait for the reply, no longer than the call's deadline.

        Raises TableError if the callee refused what was asked, PeerError if it is gone, does not
        answer in time or failed; both name it.
        """
        try:
            return self._future.wait()
        except Exception as error:
            raise _plain(error, self._callee, self._what) from error

    def then(self, function: Callable[[], None]) -> None:
        """Call a function, from a thread of the transport, once `done` is true."""
        self._future.add_done_callback(lambda _: function())

    def done(self) -> bool:
        """Tell whether a reply, or a failure, is here."""
        return bool(self._future.done())


def start_call(
    world: World,
    rank: int,
    function: Callable[..., Any],
    *args: Any,
    timeout_s: float | None = None,
) -> Pending:
    """Begin to run a function on another rank. Tensors in the arguments must be compact."""
    deadline = world.rpc_timeout_s if timeout_s is None else timeout_s
    callee = world.describe(rank)
    try:
        future = rpc.rpc_async(world.name_of(rank), function, args=args, timeout=deadline)
    except RuntimeError as error:
        raise _plain(error, callee, function.__name__) from error
    return Pending(future, callee, function.__name__)


def call(
    world: World,
    rank: int,
    function: Callable[..., Any],
    *args: Any,
    timeout_s: float | None = None,
) -> Any:
    """Run a function on another rank and wait for what it returns."""
    return start_call(world, rank, function, *args, timeout_s=timeout_s).wait()


def call_each(
    world: World,
    ranks: Iterable[int],
    function: Callable[..., Any],
    *args: Any,
    timeout_s: float | None = None,
) -> list[Any]:
    """Run a function on several ranks at once; gives their answers in the ranks' order."""
    calls = [start_call(world, rank, function, *args, timeout_s=timeout_s) for rank in ranks]
    return [pending.wait() for pending in calls]


def deferred(function: Callable[P, Future[T]]) -> Callable[P, Future[T]]:
    """Mark a function that answers its caller later, by the Future that it returns.

    No thread of the server waits meanwhile.
    """
    return functools.wraps(function)(rpc.functions.async_execution(function))


def _plain(error: Exception, callee: str, what: str) -> PeerError | TableError:
    text = str(error)
    if refused := _REMOTE_TABLE_ERROR.search(text):
        return TableError(f"{callee}: {refused['text']}")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    cause = next((line for line in lines if "On WorkerInfo(" not in line), "no reason given")
    return PeerError(f"{callee} did not answer {what}: {cause}")
