import threading

import pytest

from hybridjob.data.prefetch import prefetched


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_order_is_kept_and_the_thread_ends(depth):
    assert list(prefetched(range(100), depth)) == list(range(100))
    assert threads() == []


def test_an_error_comes_at_its_place():
    def source():
        yield 1
        yield 2
        raise KeyError("three")

    ahead = prefetched(source())
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(KeyError, match="three"):
        next(ahead)
    assert threads() == []


def test_stopping_early_ends_the_thread_and_closes_the_source():
    closed = threading.Event()

    def source():
        try:
            yield from iter(int, 1)
        finally:
            closed.set()

    ahead = prefetched(source())
    assert next(ahead) == 0
    ahead.close()
    assert closed.is_set()
    assert threads() == []


def test_it_never_runs_further_ahead_than_its_depth():
    made = []

    def source():
        for i in range(50):
            made.append(i)
            yield i

    for item in prefetched(source(), 3):
        assert len(made) <= item + 1 + 3


def test_a_depth_of_none_is_refused():
    with pytest.raises(ValueError, match="depth is 0"):
        prefetched([], 0)
