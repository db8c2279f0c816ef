"""A trainer's files in a checkpoint: the dense layers, once, and each one's random generators."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from hybridjob import mailbox, random_state, remote
from hybridjob.checkpoint.behind import Written, write, write_behind
from hybridjob.checkpoint.files import read_tensors, write_tensors
from hybridjob.errors import PeerError
from hybridjob.logs import log_event
from hybridjob.messages import Saved

if TYPE_CHECKING:
    from torch import Tensor

    from hybridjob.checkpoint.entries import FileEntry
    from hybridjob.checkpoint.manifest import Manifest
    from hybridjob.checkpoint.order import SaveOrder
    from hybridjob.dense import DenseModel
    from hybridjob.rendezvous import World

logger = logging.getLogger(__name__)
_DENSE_FILE = "dense.safetensors"
Files = dict[str, "dict[str, Tensor]"]
"""File name -> tensor name -> tensor."""


def save_trainer(order: SaveOrder, world: World, dense: DenseModel) -> None:
    """Write what only this trainer has, and, if it is the first, what all have alike.

    The master is told what came of it: before this returns, or later if the order is to write
    behind; then this returns once there is a copy.
    """
    state = _state(world.index, dense, copy=order.behind)
    work = functools.partial(_write_files, Path(order.draft), state)
    if order.behind:
        write_behind(work, functools.partial(_report_later, world))
    else:
        _report(world, write(work))


def _state(index: int, dense: DenseModel, *, copy: bool) -> Files:
    files = {_own_file(index): random_state.capture(dense.device)}
    if index == 0:
        tensors = dense.tensors()
        if copy:
            tensors = {name: one.detach().to("cpu", copy=True) for name, one in tensors.items()}
        files[_DENSE_FILE] = tensors
    return files


def _write_files(draft: Path, files: Files) -> list[FileEntry]:
    return [write_tensors(draft / name, tensors) for name, tensors in files.items()]


def _report(world: World, written: Written) -> None:
    saved = Saved(trainer=world.index, files=written.files, error=written.error)
    remote.call(world, 0, mailbox.report, saved)


def _report_later(world: World, written: Written) -> None:
    try:
        _report(world, written)
    except PeerError as error:  # the thread that watches the master ends this process
        log_event(logger, f"could not tell what was written: {error}", logging.WARNING)


def load_trainer(folder: Path, manifest: Manifest, index: int, dense: DenseModel) -> None:
    """Take over the dense layers and this trainer's random generators.

    A trainer that the checkpoint does not know keeps the generators that its seed has given it.
    """
    entries = {entry.name: entry for entry in manifest.files}
    dense.load(read_tensors(folder / _DENSE_FILE, entries.get(_DENSE_FILE)))
    if index < manifest.trainers:
        own = _own_file(index)
        random_state.restore(read_tensors(folder / own, entries.get(own)), dense.device)


def _own_file(index: int) -> str:
    return f"trainer-{index:03d}.safetensors"
