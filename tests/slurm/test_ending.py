import pytest

from slurm.ending import Ended, Next, Wish, decide, parse_wish
from slurm.state import JobState

RUN, DONE = JobState.RUNNING, JobState.COMPLETING
RUNNING, ENDING = {0: RUN, 1: RUN}, {0: DONE, 1: DONE}


def after(code, wish=None, states=RUNNING, **more):
    ended = Ended(code=code, wish=wish, states=states, **{"attempts_left": 1, **more})
    return decide(ended)


@pytest.mark.parametrize(
    ("code", "wish", "expected"),
    [
        (0, None, (Next.END, 0)),
        (0, Wish.DONE, (Next.END, 0)),
        (137, Wish.DONE, (Next.END, 0)),
        (70, None, (Next.END, 70)),
        (143, Wish.GIVE_UP, (Next.END, 70)),
        (75, None, (Next.REQUEUE, 75)),
        (143, Wish.REQUEUE, (Next.REQUEUE, 75)),
        (0, Wish.REQUEUE, (Next.REQUEUE, 75)),
        (75, Wish.GIVE_UP, (Next.END, 70)),
        (70, Wish.REQUEUE, (Next.REQUEUE, 75)),
        (1, None, (Next.TRY_AGAIN, 1)),
        (137, None, (Next.TRY_AGAIN, 137)),
        (75, Wish.LEAVE, (Next.TRY_AGAIN, 75)),
        (0, Wish.AGAIN, (Next.TRY_AGAIN, 143)),
    ],
)
def test_in_a_running_job_the_wish_wins_over_sruns_code(code, wish, expected):
    assert after(code, wish) == expected


@pytest.mark.parametrize(
    ("code", "wish", "expected"),
    [
        (137, None, (Next.END, 137)),
        (143, Wish.AGAIN, (Next.END, 143)),
        (143, Wish.LEAVE, (Next.REQUEUE, 75)),
    ],
)
def test_without_attempts_left_only_who_was_told_to_leave_is_requeued(code, wish, expected):
    assert after(code, wish, attempts_left=0) == expected


@pytest.mark.parametrize("code", [1, 75, 137])
@pytest.mark.parametrize("wish", [None, Wish.REQUEUE, Wish.LEAVE, Wish.AGAIN])
@pytest.mark.parametrize("leader", [DONE, JobState.PENDING, JobState.CANCELLED, JobState.TIMEOUT])
def test_a_job_that_slurm_is_ending_is_left_to_slurm(code, wish, leader):
    expected = 75 if wish is None and code == 75 else code
    assert after(code, wish, {0: leader, 1: RUN}) == (Next.END, expected)


def test_a_zero_of_srun_counts_only_if_slurm_is_not_ending_the_job():
    assert after(0, states=ENDING) == (Next.END, 143)
    assert after(0, Wish.DONE, ENDING) == (Next.END, 0)


def test_a_preempted_job_that_has_left_in_time_is_requeued():
    assert after(143, Wish.LEAVE, preempted=True) == (Next.REQUEUE, 75)


def test_a_component_that_has_ended_leaves_no_room_for_another_step():
    assert after(137, states={0: RUN, 1: JobState.CANCELLED}) == (Next.END, 137)


@pytest.mark.parametrize(
    ("warned", "expected"), [(False, (Next.TRY_AGAIN, 137)), (True, (Next.END, 137))]
)
def test_where_slurm_is_silent_a_sigterm_tells_that_the_job_ends(warned, expected):
    assert after(137, states=None, warned=warned) == expected


def test_only_known_words_are_wishes():
    assert [parse_wish(text) for text in ("give up\n", "requeue", "", "sing")] == [
        Wish.GIVE_UP,
        Wish.REQUEUE,
        None,
        None,
    ]


@pytest.mark.parametrize("wish", [None, Wish.AGAIN, Wish.LEAVE])
def test_near_its_time_limit_a_job_is_requeued_instead_of_tried_again(wish):
    assert after(138, wish, ends_soon=True) == (Next.REQUEUE, 75)
    assert after(138, wish, ends_soon=True, states={0: JobState.TIMEOUT})[0] is Next.END
    assert after(1, Wish.GIVE_UP, ends_soon=True)[0] is Next.END
