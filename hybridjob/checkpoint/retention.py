"""Which checkpoints stay."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from hybridjob.checkpoint.manifest import all_checkpoints, read_manifest, set_aside, step_of
from hybridjob.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path


def remove_old(
    checkpoints: Path, *, newest: int, keep_last: int, keep_every: int = 0
) -> list[Path]:
    """Remove what is no longer wanted, once the checkpoint of step `newest` is durable.

    The last `keep_last` up to it stay, those at multiples of `keep_every`, and the bases of all
    these. If more than one is to stay, so does the newest that needs nothing of the newest's base:
    a damaged base must not take all checkpoints with it. Later ones, which a restore has passed
    over, do not count. Returns what was removed. Raises OSError.
    """
    for leftover in (*checkpoints.glob(".step-*.draft"), *checkpoints.glob(".step-*.removed")):
        shutil.rmtree(leftover)
    folders = [one for one in all_checkpoints(checkpoints) if step_of(one) <= newest]
    base_of = {one.name: _base_of(one) for one in folders}
    kept = {one.name for one in folders[-keep_last:]}
    kept |= {one.name for one in folders if keep_every and step_of(one) % keep_every == 0}
    if keep_last > 1 and folders:
        base = base_of[folders[-1].name]
        kept |= set([one.name for one in folders if base_of[one.name] != base][-1:])
    kept |= {base_of[name] for name in kept}
    doomed = [one for one in folders if one.name not in kept]
    for folder in doomed:
        set_aside(folder)
    return doomed


def _base_of(folder: Path) -> str:
    """Name the base of a checkpoint: a base's is itself."""
    try:
        return read_manifest(folder).base or folder.name
    except CheckpointError:  # it holds nothing that could be restored
        return folder.name
