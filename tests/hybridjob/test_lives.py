"""Lives are counted, and an older generation gives way to a newer one."""

import pytest

from hybridjob.errors import PeerError
from hybridjob.jobfolder import JobFolder
from hybridjob.lives import begin_life, idle_lives, read_lives


@pytest.fixture
def folder(tmp_path):
    folder = JobFolder(tmp_path / "7")
    folder.create()
    return folder


def live(folder, life, *, saved_step=None, attempt=0):
    begin_life(folder, life=life, attempt=attempt, host="n1")
    if saved_step is not None:
        (folder.checkpoints / f"step-{saved_step:08d}").mkdir(parents=True)
    return idle_lives(read_lives(folder))


def test_a_life_that_saved_something_is_not_idle(folder):
    assert live(folder, 0, saved_step=10) == 0
    assert live(folder, 1, saved_step=20) == 0
    assert live(folder, 2) == 0


def test_lives_without_a_new_checkpoint_are_counted_back_to_back(folder):
    assert live(folder, 0, saved_step=10) == 0
    assert live(folder, 1) == 0
    assert live(folder, 2) == 1
    assert live(folder, 3, saved_step=30) == 2
    assert live(folder, 4) == 0


def test_attempts_within_a_life_are_one_life(folder):
    live(folder, 0)
    live(folder, 0, attempt=1)
    live(folder, 0, attempt=2)
    assert live(folder, 1) == 1


def test_an_older_generation_finds_that_a_newer_one_has_taken_over(folder):
    for generation in ("0.0.0", "0.0.9", "0.0.10"):
        path = folder.endpoint(generation)
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    folder.check_newest("0.0.10")
    folder.endpoint("1.0.0").write_text("{}")
    with pytest.raises(PeerError, match=r"generation 1\.0\.0 has taken over from 0\.0\.10"):
        folder.check_newest("0.0.10")
    assert len(folder.generations()) == 4


def test_the_folder_is_for_its_owner_alone(folder):
    assert folder.path.stat().st_mode & 0o777 == 0o700
