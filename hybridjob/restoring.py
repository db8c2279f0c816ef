"""The choice of the checkpoint to go on from: the newest whose every byte is as it was written.

The servers check what they read of the tables while they read it; the master checks the rest
meanwhile. What any of them finds damaged sends all to the next older checkpoint.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hybridjob import remote
from hybridjob.checkpoint.entries import check_file
from hybridjob.checkpoint.manifest import (
    Manifest,
    all_checkpoints,
    all_files,
    check_sharding,
    none_verifies,
    read_manifest,
    step_of,
)
from hybridjob.checkpoint.shard_names import shard_name
from hybridjob.errors import CheckpointError, DamageError
from hybridjob.logs import log_event
from hybridjob.tables import server as remote_server

if TYPE_CHECKING:
    from pathlib import Path

    from hybridjob.config import Job
    from hybridjob.rendezvous import World
    from hybridjob.schema import Table

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Restored:
    """Where the run goes on; no folder: at step 0.

    table_bytes: of all servers. damage: of the checkpoints that were passed over.
    """

    table_bytes: int
    folder: Path | None = None
    manifest: Manifest | None = None
    damage: list[str] = field(default_factory=list)

    @property
    def step(self) -> int:
        """The step that training goes on from."""
        return 0 if self.manifest is None else self.manifest.step

    @property
    def samples(self) -> int:
        """The samples trained on before."""
        return 0 if self.manifest is None else self.manifest.samples


def restore(job: Job, world: World, tables: list[Table], checkpoints: Path) -> Restored:
    """Have the tables made, from the newest good checkpoint or as new.

    Raises CheckpointError if there are checkpoints and none is good, unless the job file says to
    begin at zero then; and if one is of another sharding.
    """
    damage: list[str] = []
    folders = all_checkpoints(checkpoints)[::-1]
    for folder in folders:
        try:
            manifest = read_manifest(folder)
            check_sharding(folder, manifest, job.training.sharding)
            table_bytes = _create(job, world, tables, (folder, manifest))
        except DamageError as error:
            damage.append(str(error))
            log_event(logger, f"passed over a damaged checkpoint: {error}", logging.WARNING)
            continue
        lost = step_of(folders[0]) - manifest.step
        more = {"lost_steps": lost} if lost else {}
        log_event(logger, "going on from a checkpoint", folder=folder, step=manifest.step, **more)
        return Restored(table_bytes, folder, manifest, damage)
    if not damage:
        log_event(logger, "no checkpoint yet: beginning at step 0")
    elif job.checkpoint.restart_from_zero:
        log_event(
            logger,
            "no checkpoint verifies: beginning at step 0 (checkpoint.restart_from_zero)",
            logging.WARNING,
            lost_steps=step_of(folders[0]),
        )
    else:
        raise none_verifies(damage)
    return Restored(_create(job, world, tables, None), damage=damage)


def _create(
    job: Job, world: World, tables: list[Table], source: tuple[Path, Manifest] | None
) -> int:
    """Have the servers make their tables. Returns their bytes.

    Raises DamageError, or CheckpointError for one that is of other tables or another optimizer.
    """
    calls = [
        remote.start_call(
            world,
            rank,
            remote_server.create_shards,
            tables,
            job,
            None if source is None else str(source[0]),
            timeout_s=job.training.stall_timeout_s,
        )
        for rank in world.layout.server_ranks
    ]
    own = None if source is None else _check_the_rest(*source)
    replies = [call.wait() for call in calls]
    for error in (own, *(error for _, error in replies)):
        if error is not None:
            raise error
    return sum(num_bytes for num_bytes, _ in replies)


def _check_the_rest(folder: Path, manifest: Manifest) -> CheckpointError | None:
    """Check the files that no server reads. Returns what is wrong."""
    try:
        for where, entry in all_files(folder, manifest):
            if shard_name(entry.name) is None:
                check_file(where, entry)
    except CheckpointError as error:
        return error
    return None
