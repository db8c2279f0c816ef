"""How evenly servers were asked: shares, and a hint where another sharding would help."""

import pytest

from hybridjob.runs.served import hint_of_imbalance, served_shares, times_the_mean, waited_most_for


def test_shares_of_few_servers_are_all_named():
    assert served_shares([61, 39]) == "ps0 61%, ps1 39%"
    assert served_shares([0, 0]) == "ps0 0%, ps1 0%"


def test_of_many_servers_the_extremes_are_named():
    assert served_shares([10] * 7 + [5, 25]) == "most ps8 25%, least ps7 5%, mean 11%"


def test_a_server_is_measured_by_the_mean():
    assert times_the_mean([30, 10, 20]) == [1.5, 0.5, 1.0]
    assert times_the_mean([0, 0]) == []


def test_a_busy_server_of_ranges_is_named_with_what_helps():
    hint = hint_of_imbalance({"sharding": "range", "ids_served": [10, 90]})
    assert hint is not None
    assert hint.startswith("ps1 serves 1.8 times as many ids as the mean")
    assert "training.sharding = 'hash'" in hint


@pytest.mark.parametrize(
    "summary",
    [
        {"sharding": "range", "ids_served": [75, 25]},
        {"sharding": "hash", "ids_served": [10, 90]},
        {"sharding": "range", "ids_served": [100]},
        {"sharding": "range", "ids_served": [0, 0]},
        {"name": "a run from before there was a choice"},
    ],
)
def test_there_is_no_hint_where_nothing_would_help(summary):
    assert hint_of_imbalance(summary) is None


def test_the_server_that_was_waited_for_most_is_named():
    assert waited_most_for({"ps0": 1.0, "ps1": 3.0}) == "ps1 75% of 4.0 s"
    assert waited_most_for({}) == "none"
