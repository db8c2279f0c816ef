import pytest

from slurm.state import JobState, fold_states, parse_state

S = JobState


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("RUNNING", S.RUNNING),
        ("COMPLETED", S.COMPLETED),
        ("CANCELLED by 0", S.CANCELLED),
        ("CANCELLED+", S.CANCELLED),
        ("OUT_OF_MEMORY", S.OUT_OF_MEMORY),
        ("NODE_FAIL", S.NODE_FAIL),
        ("REQUEUE_HOLD", S.REQUEUED),
        ("RESIZING", S.RUNNING),
        ("", S.UNKNOWN),
        ("A_WORD_OF_SLURM_99", S.UNKNOWN),
    ],
)
def test_slurms_words_are_read(text, state):
    assert parse_state(text) is state


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        ([S.RUNNING, S.RUNNING], S.RUNNING),
        ([S.RUNNING, S.COMPLETED], S.RUNNING),
        ([S.RUNNING, S.COMPLETING], S.RUNNING),
        # Lost its only node: the leader waits to run again, whatever the others say.
        ([S.PENDING, S.FAILED], S.PENDING),
        ([S.PENDING, S.RUNNING], S.PENDING),
        # The script is over, but nodes are still held.
        ([S.COMPLETED, S.RUNNING], S.COMPLETING),
        ([S.FAILED, S.COMPLETING], S.COMPLETING),
        ([S.COMPLETED, S.COMPLETED], S.COMPLETED),
        ([S.COMPLETED, S.COMPLETED, S.NODE_FAIL], S.NODE_FAIL),
        ([S.TIMEOUT, S.CANCELLED], S.TIMEOUT),
        ([S.CANCELLED], S.CANCELLED),
    ],
)
def test_components_fold_into_one_state(states, whole):
    assert fold_states(dict(enumerate(states))) is whole


def test_only_what_never_runs_again_is_final():
    running = {S.PENDING, S.CONFIGURING, S.RUNNING, S.SUSPENDED, S.REQUEUED, S.COMPLETING}
    assert {state for state in S if not state.is_final} == {*running, S.UNKNOWN}
