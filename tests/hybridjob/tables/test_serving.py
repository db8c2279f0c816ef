"""When a server answers: neither before the gradients of earlier steps are in, nor later."""

import pytest
import torch

from hybridjob.config import Job
from hybridjob.data.batch import Batch, Jagged
from hybridjob.errors import TableError
from hybridjob.schema import Table
from hybridjob.tables.plan import Planner
from hybridjob.tables.serving import Server
from hybridjob.tables.torch_trainer import TorchTrainer

TABLE = Table(name="t", num_embeddings=10, embedding_dim=2, feature_names=("f",), initial="zeros")
JOB = Job(
    name="j",
    data={"format": "synthetic", "num_samples": 9, "features": [{"name": "f", "cardinality": 10}]},
    training={"table_optimizer": {"name": "sgd", "lr": 1.0}},
)
ONE_ROW = torch.ones(2)


def make_server(**more):
    server = Server(index=0, num_servers=1, num_trainers=2, **more)
    server.create([TABLE], JOB, None)
    return server


def question(row=3):
    bag = Jagged(torch.tensor([row]), torch.tensor([0, 1]))
    batch = Batch(torch.empty(1, 0), {"f": bag}, torch.zeros(1))
    return Planner([TABLE], 1, TorchTrainer(), "auto").plan(batch).questions[0]


def rows(future):
    return future.value().rows.tolist()


def test_a_question_about_the_next_step_waits_for_all_gradients_of_this_one():
    server = make_server(synchronous=True)
    assert all(server.ask(one, question(), 0, train=True).done() for one in (0, 1))
    early = [server.ask(one, question(), 1, train=True) for one in (0, 1)]
    first = server.push(0, ONE_ROW, 0)
    assert not first.done()
    assert not any(one.done() for one in early)
    server.push(1, ONE_ROW, 0)
    assert first.value() == 1
    assert [rows(one) for one in early] == [[-2.0, -2.0]] * 2
    assert [one.value().lag for one in early] == [0, 0]


def test_the_ids_of_all_questions_are_counted_answered_or_not():
    server = make_server(synchronous=True)
    server.ask(0, question(), 0, train=True)
    server.ask(1, question(), 0, train=False)
    server.ask(0, question(), 1, train=True)
    assert server.ids_served == 3


@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_rows_lag_by_no_more_than_the_staleness(staleness):
    server = make_server(synchronous=False, staleness=staleness)
    asked = [
        [server.ask(one, question(), step, train=True) for one in (0, 1)]
        for step in range(staleness + 2)
    ]
    assert [one[0].done() for one in asked] == [True] * (staleness + 1) + [False]
    assert [one[0].value().lag for one in asked[:-1]] == list(range(staleness + 1))
    server.push(0, ONE_ROW, 0)
    assert not asked[-1][0].done()
    server.push(1, ONE_ROW, 0)
    assert asked[-1][0].value().lag == staleness
    assert rows(asked[-1][0]) == [-2.0, -2.0]


def test_gradients_that_overtake_each_other_are_applied_in_order():
    server = make_server(synchronous=False, staleness=1)
    for step in (0, 1):
        server.ask(0, question(row=step), step, train=True)
    later = server.push(0, ONE_ROW, 1)
    assert server.updates == 0
    assert not later.done()
    sooner = server.push(0, ONE_ROW, 0)
    assert server.updates == 2
    assert sooner.done()
    assert later.done()
    assert server.pushed == [2, 0]


def test_a_push_that_nobody_announced_is_refused():
    server = make_server(synchronous=True)
    with pytest.raises(TableError, match=r"trainer 1 pushed step 0, but the tables are at 0"):
        server.push(1, ONE_ROW, 0)
    server.ask(1, question(), 0, train=True)
    with pytest.raises(TableError, match=r"pushed \(3,\) values, not \(2,\)"):
        server.push(1, torch.ones(3), 0)


def test_a_question_that_cannot_be_answered_is_an_error_of_the_asker_alone():
    server = make_server(synchronous=True)
    bad = question()
    bad.ids[0] = 10
    with pytest.raises(TableError, match="id 10 is out of range"):
        server.ask(0, bad, 0, train=True).wait()
    assert rows(server.ask(1, question(), 0, train=True)) == [0.0, 0.0]


def test_looking_up_for_a_test_leaves_nothing_behind():
    server = make_server(synchronous=True)
    server.ask(0, question(), 0, train=False).wait()
    with pytest.raises(TableError, match="pushed step 0"):
        server.push(0, ONE_ROW, 0)
