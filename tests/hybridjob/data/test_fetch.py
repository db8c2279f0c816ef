import hashlib
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hybridjob.data import fetch
from hybridjob.data.config import DataConfig
from hybridjob.errors import DataError

CONTENTS = {name: name.encode() * 3 for name in fetch.FILES}
CONFIG = {
    "source": "movielens-100k",
    "label": "rating >= 4",
    "categorical": [{"column": "user_id", "num_embeddings": 9}],
}


@pytest.fixture
def pip(monkeypatch):
    """Stand in for pip: writes a wheel with the files of CONTENTS, and counts its calls."""
    calls = []

    def run(command, **_):
        calls.append(command)
        wheel = Path(command[command.index("--dest") + 1]) / "recbole-1.2.1.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, content in CONTENTS.items():
                archive.writestr(f"recbole/dataset_example/ml-100k/{name}", content)
        return subprocess.CompletedProcess(command, 0, "", "")

    digests = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENTS.items()}
    monkeypatch.setattr(fetch, "FILES", digests)
    monkeypatch.setattr(fetch.subprocess, "run", run)
    return calls


def test_the_second_call_needs_no_network(pip, tmp_path):
    folder = fetch.fetch_movielens(tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENTS
    assert fetch.fetch_movielens(tmp_path) == folder
    assert len(pip) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["ml-100k"]


def test_a_damaged_file_is_fetched_again(pip, tmp_path):
    damaged = fetch.fetch_movielens(tmp_path) / "ml-100k.user"
    damaged.write_bytes(b"half")
    fetch.fetch_movielens(tmp_path)
    assert damaged.read_bytes() == CONTENTS["ml-100k.user"]
    assert len(pip) == 2


def test_several_can_fetch_at_once(pip, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: fetch.fetch_movielens(tmp_path), range(4)))
    assert {path.name: path.read_bytes() for path in folders[0].iterdir()} == CONTENTS
    assert 1 <= len(pip) <= 4


def test_wrong_content_is_refused(pip, tmp_path, monkeypatch):
    monkeypatch.setitem(CONTENTS, "ml-100k.item", b"other")
    with pytest.raises(DataError, match=r"ml-100k\.item has sha256"):
        fetch.fetch_movielens(tmp_path)
    assert len(pip) == 1


def test_a_failure_says_how_to_point_at_a_local_copy(tmp_path, monkeypatch):
    def run(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "ERROR: a\nERROR: no route to host\n")

    monkeypatch.setattr(fetch.subprocess, "run", run)
    with pytest.raises(DataError) as caught:
        fetch.fetch_movielens(tmp_path)
    text = str(caught.value)
    assert "no route to host" in text
    assert "data.path" in text
    assert "data.cache_folder" in text


def test_paths_of_the_source_are_filled_in(tmp_path, monkeypatch):
    monkeypatch.setenv("HYBRIDJOB_CACHE", str(tmp_path))
    config = fetch.resolve(DataConfig(**CONFIG))
    assert config.path == (str(tmp_path / "ml-100k" / "ml-100k.inter"),)
    assert [join.key for join in config.join] == ["user_id", "item_id"]
    assert config.header_type_separator == ":"
    assert fetch.resolve(config) == config


def test_a_local_copy_is_never_fetched(pip, tmp_path):
    config = DataConfig(**CONFIG, path="a", join=[{"path": "b", "key": "user_id"}])
    fetch.ensure_local(config)
    assert fetch.resolve(config).path == ("a",)
    assert pip == []
    fetch.ensure_local(DataConfig(**CONFIG, cache_folder=str(tmp_path)))
    assert len(pip) == 1
