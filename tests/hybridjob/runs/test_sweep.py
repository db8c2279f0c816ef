"""Combinations of values, and the names of their jobs."""

import pytest

from hybridjob.errors import ConfigError
from hybridjob.runs.sweep import name_of_point, points_of


def test_all_combinations_are_made_the_last_key_fastest():
    points = points_of(["training.table_optimizer.lr=0.01,0.1", "seed=1,2"])
    assert [one.overrides for one in points] == [
        ("training.table_optimizer.lr=0.01", "seed=1"),
        ("training.table_optimizer.lr=0.01", "seed=2"),
        ("training.table_optimizer.lr=0.1", "seed=1"),
        ("training.table_optimizer.lr=0.1", "seed=2"),
    ]
    assert points[2].values == {"training.table_optimizer.lr": 0.1, "seed": 1}
    assert name_of_point("clicks", points[2]) == "clicks-lr0.1-seed1"


def test_commas_within_brackets_and_quotes_do_not_cut():
    (first, second) = points_of(["model.options.top=[8,4],[16]"])
    assert first.values == {"model.options.top": [8, 4]}
    assert first.suffix == "top8_4"
    assert second.suffix == "top16"
    (one,) = points_of(['model.options.name="a,b"'])
    assert one.values == {"model.options.name": "a,b"}


def test_keys_that_end_alike_are_told_apart():
    (one,) = points_of(["training.table_optimizer.lr=1", "training.dense_optimizer.lr=2"])
    assert one.suffix == "training_table_optimizer_lr1-training_dense_optimizer_lr2"


@pytest.mark.parametrize("text", ["seed", "seed=", "=1,2", "seed=1,,2"])
def test_what_cannot_be_read_is_a_mistake(text):
    with pytest.raises(ConfigError, match=r"write it as key\.path=value,value"):
        points_of([text])


def test_a_key_given_twice_is_a_mistake():
    with pytest.raises(ConfigError, match="--sweep seed is given twice"):
        points_of(["seed=1", "seed=2"])


def test_two_jobs_of_one_name_are_a_mistake():
    with pytest.raises(ConfigError, match=r"two jobs would be named \.\.\.-seed1"):
        points_of(["seed=1,1"])
