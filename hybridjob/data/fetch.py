"""Fetch the MovieLens-100K ratings into a cache folder.

The package recbole 1.2.1 on PyPI carries the three tables. GroupLens gives the data for research
use: it is fetched, never shipped.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from hybridjob.data.config import DataConfig, JoinTable
from hybridjob.errors import DataError

_PACKAGE = "recbole==1.2.1"
_FOLDER_IN_WHEEL = "recbole/dataset_example/ml-100k"
_TIMEOUT_S = 300
FILES = {
    "ml-100k.inter": "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
    "ml-100k.user": "4f670007d9cfbeb9807e757209af1555b9bcc186bde25e767f67cb67c6dd5972",
    "ml-100k.item": "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
}


def cache_folder(config: DataConfig) -> Path:
    """Choose where fetched data lies: cache_folder, $HYBRIDJOB_CACHE, or ~/.cache/hybridjob."""
    chosen = config.cache_folder or os.environ.get("HYBRIDJOB_CACHE") or "~/.cache/hybridjob"
    return Path(chosen).expanduser()


def ensure_local(config: DataConfig) -> None:
    """Fetch what the data's source names, if it is not there yet; for a node with a network."""
    if _needs_cache(config):
        fetch_movielens(cache_folder(config))


def resolve(config: DataConfig) -> DataConfig:
    """Fill in the paths of the data's source; paths and joins of the user's own stay."""
    if config.source is None:
        return config
    folder = cache_folder(config) / "ml-100k"
    update: dict[str, object] = {}
    if config.header_type_separator is None:
        update["header_type_separator"] = ":"
    if not config.path:
        update["path"] = (str(folder / "ml-100k.inter"),)
    if not config.join:
        update["join"] = tuple(
            JoinTable(path=(str(folder / name),), key=key, header_type_separator=":")
            for name, key in (("ml-100k.user", "user_id"), ("ml-100k.item", "item_id"))
        )
    return config.model_copy(update=update)


def fetch_movielens(cache: Path) -> Path:
    """Put the three tables into cache/ml-100k and return that folder.

    Offline and at once if they are there. Raises DataError if they cannot be fetched.
    """
    folder = cache / "ml-100k"
    if all(_is_whole(folder / name, digest) for name, digest in FILES.items()):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=cache) as scratch:
            _extract(_download(Path(scratch), folder), Path(scratch), folder)
    except OSError as error:
        raise _cannot_fetch(folder, str(error)) from error
    return folder


def _needs_cache(config: DataConfig) -> bool:
    return config.source is not None and not (config.path and config.join)


def _is_whole(path: Path, digest: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == digest
    except FileNotFoundError:
        return False


def _download(scratch: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(scratch), _PACKAGE]
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise _cannot_fetch(folder, f"pip took more than {_TIMEOUT_S} s") from error
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise _cannot_fetch(folder, f"pip exited {done.returncode} and said: {said[-1]}")
    return wheels[0]


def _extract(wheel: Path, scratch: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            contents = {name: archive.read(f"{_FOLDER_IN_WHEEL}/{name}") for name in FILES}
    except (zipfile.BadZipFile, KeyError) as error:
        raise _cannot_fetch(folder, f"{wheel.name} is not as expected: {error}") from error
    for name, content in contents.items():
        found = hashlib.sha256(content).hexdigest()
        if found != FILES[name]:
            raise _cannot_fetch(folder, f"{name} has sha256 {found}, expected {FILES[name]}")
        part = scratch / name
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # Several jobs may fetch at once: each replaces whole files by the same whole files.
        part.replace(folder / name)


def _cannot_fetch(folder: Path, why: str) -> DataError:
    return DataError(
        f"MovieLens-100K could not be fetched ({_PACKAGE} from PyPI): {why}. On a machine with a "
        f"network, `pip download --no-deps {_PACKAGE}`, and copy {', '.join(FILES)} out of the "
        f"wheel's {_FOLDER_IN_WHEEL} into {folder}; or set data.cache_folder or $HYBRIDJOB_CACHE "
        "to a folder whose ml-100k holds them; or set data.path and [[data.join]] paths"
    )
