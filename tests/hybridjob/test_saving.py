"""The master's part of saving, with ranks that answer when the test lets them."""

import logging
from dataclasses import dataclass, field

import pytest

from hybridjob import saving as module
from hybridjob.checkpoint.behind import Written
from hybridjob.checkpoint.manifest import all_checkpoints, read_manifest, step_of
from hybridjob.config import Job
from hybridjob.errors import CheckpointError
from hybridjob.jobfolder import JobFolder
from hybridjob.messages import Boundary, Saved, Woken
from hybridjob.saving import Saving


@dataclass
class Call:
    """A call whose answer the test gives."""

    function: str
    args: tuple
    answer: object = None
    answered: bool = False

    def then(self, function):
        pass

    def done(self):
        return self.answered

    def wait(self):
        assert self.answered
        return self.answer


@dataclass
class Ranks:
    """One server and one trainer."""

    touched: int = 0
    calls: list = field(default_factory=list)
    told: list = field(default_factory=list)

    def start_call(self, world, rank, function, *args, timeout_s=None):
        self.calls.append(Call(function.__name__, args))
        return self.calls[-1]

    def call_each(self, world, ranks, function, *args, timeout_s=None):
        if function.__name__ == "touched":
            return [(self.touched, 100)]
        self.told.append((function.__name__, *args))
        return [None]


class World:
    layout = Job.model_validate(
        {"name": "x", "data": {"format": "synthetic", "num_samples": 1, "num_dense": 1}}
    ).layout


@pytest.fixture
def ranks(monkeypatch):
    ranks = Ranks()
    monkeypatch.setattr(module.remote, "start_call", ranks.start_call)
    monkeypatch.setattr(module.remote, "call_each", ranks.call_each)
    return ranks


@pytest.fixture
def saving(ranks, tmp_path):
    values = {
        "name": "x",
        "data": {"format": "synthetic", "num_samples": 1, "num_dense": 1},
        "checkpoint": {"full_every": 2, "max_failures": 2, "keep_last": 20},
    }
    folder = JobFolder(tmp_path)
    folder.endpoint("0.0.0").parent.mkdir()
    folder.endpoint("0.0.0").touch()
    return Saving(Job.model_validate(values), World(), folder, "0.0.0")


def boundary(saving, step, *, last=False):
    saving.take(Boundary(trainer=0, step=step, epoch=0, samples=1, position={}, last=last))


def answer(saving, ranks, function, reply=None):
    (call,) = (one for one in ranks.calls if one.function == function and not one.answered)
    call.answer, call.answered = reply, True
    saving.take(Woken())


def finish(saving, ranks, error=None):
    saving.take(Saved(trainer=0, files=[]))
    answer(saving, ranks, "written", Written(error=error))


def whole(saving, ranks, step, error=None):
    boundary(saving, step)
    answer(saving, ranks, "save")
    finish(saving, ranks, error)


def kinds(saving):
    found = [read_manifest(one) for one in all_checkpoints(saving._folder.checkpoints)]
    return [(one.step, one.base) for one in found]


def test_training_goes_on_once_there_are_snapshots_and_the_checkpoint_comes_later(saving, ranks):
    boundary(saving, 5)
    (order,) = (args[0] for name, *args in ranks.told if name == "save")
    assert (order.behind, order.delta) == (True, False)
    assert ("resume",) not in ranks.told
    answer(saving, ranks, "save")
    assert ranks.told[-1] == ("resume",)
    assert saving.busy
    assert kinds(saving) == []
    finish(saving, ranks)
    assert not saving.busy
    assert kinds(saving) == [(5, None)]


def test_a_checkpoint_asked_for_while_one_is_written_is_left_out(saving, ranks, caplog):
    caplog.set_level(logging.INFO)
    boundary(saving, 5)
    answer(saving, ranks, "save")
    boundary(saving, 10)
    assert ranks.told[-1] == ("save", None)
    assert "a checkpoint is left out" in caplog.text
    finish(saving, ranks)
    assert kinds(saving) == [(5, None)]
    assert len([one for one in ranks.calls if one.function == "save"]) == 1


def test_the_last_one_waits_for_the_one_before_and_is_durable_before_training_ends(saving, ranks):
    boundary(saving, 5)
    answer(saving, ranks, "save")
    told = len(ranks.told)
    boundary(saving, 7, last=True)
    assert len(ranks.told) == told
    finish(saving, ranks)
    name, order = ranks.told[-1]
    assert (name, order.behind) == ("save", False)
    answer(saving, ranks, "save")
    assert ("resume",) not in ranks.told[told:]
    finish(saving, ranks)
    assert ranks.told[-1] == ("resume",)
    assert [step for step, _ in kinds(saving)] == [5, 7]


def test_the_last_one_is_not_written_twice(saving, ranks):
    boundary(saving, 5)
    answer(saving, ranks, "save")
    boundary(saving, 5, last=True)
    finish(saving, ranks)
    assert ranks.told[-1] == ("save", None)
    assert kinds(saving) == [(5, None)]


def test_deltas_follow_a_base_until_there_are_many_or_much_was_touched(saving, ranks):
    base, second = "step-00000001", "step-00000004"
    for step in (1, 2, 3, 4, 5):
        whole(saving, ranks, step)
    assert kinds(saving) == [(1, None), (2, base), (3, base), (4, None), (5, second)]
    ranks.touched = 31
    whole(saving, ranks, 6)
    assert kinds(saving)[-1] == (6, None)


def test_after_a_base_that_failed_comes_a_base_and_after_a_delta_that_failed_a_delta(
    saving, ranks, caplog
):
    whole(saving, ranks, 1)
    whole(saving, ranks, 2, error="no space left")
    assert "the one before stays: no space left" in caplog.text
    whole(saving, ranks, 3)
    assert kinds(saving) == [(1, None), (3, "step-00000001")]
    ranks.touched = 50
    whole(saving, ranks, 4, error="no space left")
    ranks.touched = 0
    whole(saving, ranks, 5)
    assert kinds(saving)[-1] == (5, None)


def test_too_many_failures_in_a_row_are_an_error(saving, ranks):
    whole(saving, ranks, 1, error="no space left")
    with pytest.raises(CheckpointError, match=r"2 checkpoints in a row .* no space left"):
        whole(saving, ranks, 2, error="no space left")


def test_after_a_restore_deltas_go_on_from_the_same_base(saving, ranks):
    whole(saving, ranks, 1)
    whole(saving, ranks, 2)
    folder = all_checkpoints(saving._folder.checkpoints)[-1]
    assert step_of(folder) == 2
    again = Saving(saving._job, World(), saving._folder, "0.0.0")
    again.restored(folder, read_manifest(folder))
    boundary(again, 2)
    assert ranks.told[-1] == ("save", None)
    whole(again, ranks, 3)
    whole(again, ranks, 4)
    assert kinds(again)[-2:] == [(3, "step-00000001"), (4, None)]
