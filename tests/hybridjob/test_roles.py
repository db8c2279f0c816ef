"""Which rank does what."""

import pytest

from hybridjob.errors import ConfigError
from hybridjob.roles import Layout, Role, index_in_role, name_of, role_of


def test_ranks_are_the_master_then_the_servers_then_the_trainers():
    layout = Layout(num_servers=2, num_trainers=3)
    names = [name_of(rank, layout) for rank in range(layout.num_tasks)]
    assert names == ["master", "ps0", "ps1", "trainer0", "trainer1", "trainer2"]
    assert [role_of(rank, layout) for rank in (0, 1, 2, 3)] == [
        Role.MASTER,
        Role.PS,
        Role.PS,
        Role.TRAINER,
    ]
    assert [index_in_role(rank, layout) for rank in range(6)] == [0, 0, 1, 0, 1, 2]


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_outside_the_job_is_refused(rank):
    with pytest.raises(ValueError, match="not one of 4 tasks"):
        role_of(rank, Layout(num_servers=1, num_trainers=2))


def test_sizes_that_do_not_add_up_name_both_numbers():
    layout = Layout(num_servers=2, num_trainers=2)
    layout.check(5)
    with pytest.raises(ConfigError, match=r"makes 5 tasks .* but SLURM_NTASKS is 4"):
        layout.check(4)
