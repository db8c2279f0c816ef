"""The first cause of a failure is the one that people see."""

import dataclasses

import pytest

from hybridjob.errors import DataError, PeerError
from hybridjob.failures import (
    Failure,
    describe_error,
    is_consequence,
    read_failure,
    record_failure,
)


def failure(rank, message="broke"):
    return Failure(rank=rank, role="ps0", host="n1", message=message)


def test_the_first_failure_stays(tmp_path):
    path = tmp_path / "failures" / "gen-0.json"
    assert record_failure(path, failure(2))
    assert not record_failure(path, failure(3))
    assert read_failure(path) == failure(2)
    assert [one.name for one in path.parent.iterdir()] == ["gen-0.json"]


def test_a_rank_that_only_lost_its_peer_lets_the_cause_speak_first(tmp_path, monkeypatch):
    monkeypatch.setattr("hybridjob.failures.CONSEQUENCE_DELAY_S", 0.0)
    path = tmp_path / "gen-0.json"
    lost = dataclasses.replace(failure(3, "lost a peer"), consequence=True)
    assert record_failure(path, lost)
    assert str(read_failure(path)) == "rank 3 (ps0 on n1): lost a peer"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PeerError("rank 1 did not answer"), True),
        (RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer"), True),
        (RuntimeError("size mismatch"), False),
        (DataError("no such file"), False),
        (ValueError("connection closed"), False),
    ],
)
def test_a_lost_peer_is_known_by_what_the_libraries_say(error, expected):
    assert is_consequence(error) is expected


def test_a_users_mistake_has_no_traceback_and_a_bug_has_one():
    assert describe_error(DataError("no file x"), rank=0, role="master", host="h").detail == ""
    try:
        raise KeyError("lost")
    except KeyError as error:
        described = describe_error(error, rank=0, role="master", host="h")
    assert described.message == "KeyError: 'lost'"
    assert "test_failures.py" in described.detail
