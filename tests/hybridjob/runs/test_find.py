"""Which run a person means."""

import os
from pathlib import Path

import pytest

from hybridjob.errors import RunError
from hybridjob.runs.find import all_runs, find_run
from slurm.command import CommandResult


@pytest.fixture
def root(make_run, tmp_path):
    make_run("67", "clicks").origin(submitted=100.0)
    make_run("70", "clicks").origin(submitted=300.0)
    make_run("69", "films").origin(submitted=200.0)
    return tmp_path / "runs"


def test_runs_are_listed_newest_first_with_their_names(root):
    (root / "clicks" / "slurm-67.log").touch()
    (root / "clicks" / ".contents-1").mkdir()
    (root / "clicks" / "12").mkdir()  # no job's folder
    found = all_runs(root)
    assert [(one.job_id, one.name) for one in found.runs] == [
        ("70", "clicks"),
        ("69", "films"),
        ("67", "clicks"),
    ]
    assert found.unreadable == []


@pytest.mark.parametrize(
    ("text", "job_id"),
    [(None, "70"), ("67", "67"), ("clicks", "70"), ("films", "69")],
)
def test_a_run_is_found_by_id_by_name_and_as_the_newest(root, text, job_id):
    assert find_run(text, root).job_id == job_id


def test_a_run_is_found_by_the_path_of_its_folder_or_of_its_runs_folder(root):
    assert find_run(str(root / "clicks" / "67"), root / "nowhere").job_id == "67"
    assert find_run(str(root / "clicks"), root / "nowhere").job_id == "70"


def test_a_relative_path_becomes_an_absolute_one(root, monkeypatch):
    monkeypatch.chdir(root.parent)
    assert find_run("clicks", Path("runs")).folder.path == root / "clicks" / "70"
    assert find_run("runs/clicks", Path("x")).folder.path == root / "clicks" / "70"


def test_a_wrong_name_brings_the_nearest(root):
    with pytest.raises(RunError, match=r"there is no run 'click' in .*Did you mean clicks?"):
        find_run("click", root)


def test_a_name_like_no_other_brings_those_there_are(root):
    with pytest.raises(RunError, match=r"Newest there: clicks, films\. Go to where you submitted"):
        find_run("zzz", root)


def test_no_runs_at_all_says_where_to_look(tmp_path):
    with pytest.raises(RunError, match=r"there is no run in .*--runs DIR"):
        find_run(None, tmp_path)


def test_a_job_elsewhere_is_found_through_slurm(root, tmp_path):
    def run(argv, *, timeout_s, env=None):
        assert argv == ["scontrol", "show", "job", "67"]
        line = f"JobId=67\n   StdErr=/x\n   StdOut={root}/clicks/slurm-67.log\n"
        return CommandResult(stdout=line, stderr="")

    assert find_run("67", tmp_path / "other", run=run).folder.path == root / "clicks" / "67"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_named(root):
    (root / "films").chmod(0)
    try:
        found = all_runs(root)
    finally:
        (root / "films").chmod(0o700)
    assert [one.job_id for one in found.runs] == ["70", "67"]
    assert found.unreadable == [f"cannot read {root / 'films'}: Permission denied"]
