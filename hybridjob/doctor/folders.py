"""The run folder, the data and the programs, as the machine that submits sees them."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hybridjob.config import BUILT_IN_MODELS
from hybridjob.data.fetch import cache_folder
from hybridjob.doctor.finding import bad, ok, warn

if TYPE_CHECKING:
    from hybridjob.config import Job
    from hybridjob.doctor.finding import Finding

# What only one machine sees, whatever it is called.
_LOCAL_KINDS = frozenset({"tmpfs", "ramfs", "overlay", "ext2", "ext3", "ext4", "xfs", "btrfs"})
_MOUNTS = Path("/proc/self/mounts")


def check_run_folder(job: Job, *, shared: bool, checkpoint_bytes: int) -> list[Finding]:
    """Check that it can be written, that its file system looks shared, and its free space."""
    path = job.run_path
    existing = next(one for one in (path, *path.parents) if one.exists())
    if not os.access(existing, os.W_OK | os.X_OK):
        found = f"{existing} is not writable"
        return [bad("run folder", found, "set run_folder to a place of yours")]
    return [_kind(path, existing, shared=shared), _space(existing, checkpoint_bytes)]


def _kind(path: Path, existing: Path, *, shared: bool) -> Finding:
    kind, mounted = file_system_of(existing)
    found = f"{path} on {kind} (mounted at {mounted})"
    if shared and kind in _LOCAL_KINDS:
        return warn(
            "run folder",
            f"{found}, which other machines rarely see",
            "set run_folder to the shared file system, or let --on-nodes look from all nodes",
        )
    return ok("run folder", found)


def _space(existing: Path, wanted: int) -> Finding:
    free = shutil.disk_usage(existing).free
    found = f"{free / 1e9:,.1f} GB free, kept checkpoints take about {wanted / 1e9:,.3f} GB"
    if free < wanted:
        return bad(
            "space", found, "lower checkpoint.keep_last, or set run_folder to a larger place"
        )
    if free < 2 * wanted:
        return warn("space", found, "other runs share it: keep an eye on it")
    return ok("space", f"{found}; a quota is not seen here")


def file_system_of(path: Path, mounts: Path = _MOUNTS) -> tuple[str, str]:
    """Tell kind and mount point of the file system that a folder is on."""
    resolved = path.resolve()
    best = ("unknown", "/")
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        _, mounted, kind, *_ = line.split()
        mounted = mounted.replace("\\040", " ")
        if resolved.is_relative_to(mounted) and len(mounted) >= len(best[1]):
            best = (kind, mounted)
    return best


def check_data(job: Job) -> list[Finding]:
    """Check that every path of the data names files that can be read."""
    data = job.data
    if data.format in ("synthetic", "tutorial"):
        return [ok("data", "made up by the job itself")]
    patterns = [*data.path, *data.test_path, *(one for join in data.join for one in join.path)]
    patterns += [column.vocabulary for column in data.categorical if column.vocabulary]
    findings = [finding for one in patterns if (finding := _unreadable(one)) is not None]
    if data.source is not None and not data.path:
        folder = cache_folder(data)
        findings.append(ok("data", f"{data.source}, fetched at submission into {folder}"))
    return findings or [ok("data", f"{len(patterns)} paths, all readable from here")]


def _unreadable(pattern: str) -> Finding | None:
    found = glob.glob(str(Path(pattern).expanduser()))  # noqa: PTH207 - as the reader does
    if not found:
        return bad("data", f"{pattern!r} names no file", "correct the path in [data]")
    closed = [one for one in found if not os.access(one, os.R_OK)]
    if closed:
        return bad("data", f"{closed[0]} cannot be read", "ask its owner for permission")
    return None


def check_model(job: Job, code_folders: list[Path]) -> Finding:
    """Check that the factory's module can be found, without importing it: it brings torch along."""
    if job.model.factory in BUILT_IN_MODELS:
        return ok("model", f"{job.model.factory}, built in")
    module = job.model.factory.partition(":")[0]
    relative = Path(*module.split("."))
    for folder in (*code_folders, *map(Path, sys.path)):
        for path in (folder / relative.with_suffix(".py"), folder / relative / "__init__.py"):
            if path.is_file():
                return ok("model", f"{job.model.factory}, in {path}")
    return bad(
        "model",
        f"no module {module!r} beside the job file, in the current folder or on PYTHONPATH",
        "correct model.factory, or put its folder on PYTHONPATH",
    )


def check_python(job: Job) -> Finding:
    """Check that the Python that runs the tasks is there, as far as this machine can tell."""
    program = shlex.split(job.slurm.python)[0] if job.slurm.python else sys.executable
    if shutil.which(program) is None:
        return warn(
            "python",
            f"slurm.python begins with {program}, which is not on this machine",
            "let --on-nodes try it, or correct slurm.python",
        )
    kind, mounted = file_system_of(Path(shutil.which(program) or program))
    return ok("python", f"{program} on {kind} (mounted at {mounted})")
