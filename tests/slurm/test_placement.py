import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm.component import Component
from slurm.errors import PlacementError
from slurm.local_environment import job_environment, task_environments
from slurm.placement import read_placement

# As a real Slurm 22.05 sets them: the trainers' hosts sort before the servers'.
HET = {
    "SLURMD_NODENAME": "a2",
    "SLURM_HET_SIZE": "2",
    "SLURM_JOB_ID": "67",
    "SLURM_JOB_NODELIST": "a[1-2],z[0-1]",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "z[0-1]",
    "SLURM_JOB_NODELIST_HET_GROUP_1": "a[1-2]",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "7",
    "SLURM_NTASKS_HET_GROUP_0": "3",
    "SLURM_NTASKS_HET_GROUP_1": "4",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_PROCID": "6",
    "SLURM_STEP_ID": "0",
}
PLAIN = {
    "SLURMD_NODENAME": "n1",
    "SLURM_JOB_ID": "8",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_LOCALID": "0",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "0",
    "SLURM_STEP_ID": "1",
}


def test_a_het_jobs_task_knows_its_component_and_the_master():
    placement = read_placement(HET)
    assert placement.job_id == "67"
    assert (placement.rank, placement.num_tasks, placement.local_rank) == (6, 7, 1)
    assert (placement.component, placement.component_rank) == (1, 3)
    assert placement.host == "a2"
    assert placement.component_sizes == (3, 4)
    assert placement.component_hosts == (("z0", "z1"), ("a1", "a2"))
    assert placement.restart_count == 0


def test_the_masters_host_is_the_first_of_component_0_not_of_the_sorted_union():
    assert read_placement(HET).master_host == "z0"
    assert read_placement(HET).hosts == ("z0", "z1", "a1", "a2")


def test_a_plain_job_is_one_component():
    placement = read_placement({**PLAIN, "SLURM_RESTART_COUNT": "2"})
    assert placement.component_sizes == (2,)
    assert placement.component_hosts == (("n1", "n2"),)
    assert placement.restart_count == 2


@pytest.mark.parametrize(("rank", "component"), [(0, 0), (2, 0), (3, 1), (6, 1)])
def test_ranks_count_through_the_components_in_order(rank, component):
    assert read_placement({**HET, "SLURM_PROCID": str(rank)}).component == component


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in HET
        if name not in {"SLURM_JOB_NODELIST", "SLURM_NTASKS_PER_NODE", "SLURM_HET_SIZE"}
    ],
)
def test_a_missing_variable_is_named(name):
    env = {key: value for key, value in HET.items() if key != name}
    with pytest.raises(PlacementError, match=rf"^{name} is not set"):
        read_placement(env)


def test_an_ssh_session_into_a_node_is_no_task():
    env = {"SLURM_JOB_ID": "67", "SLURM_NTASKS": "7", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    with pytest.raises(PlacementError, match=r"SLURM_STEP_ID is not set.*srun"):
        read_placement(env)


def test_sizes_that_do_not_add_up_name_both_numbers():
    with pytest.raises(PlacementError, match=r"3 \+ 4 = 7 tasks, but SLURM_NTASKS is 3"):
        read_placement({**HET, "SLURM_NTASKS": "3"})


@pytest.mark.parametrize(
    ("name", "value"), [("SLURM_PROCID", "x"), ("SLURM_PROCID", "7"), ("SLURM_LOCALID", "-1")]
)
def test_a_number_that_cannot_be_is_refused(name, value):
    with pytest.raises(PlacementError, match=f"{name} is '?{value}"):
        read_placement({**HET, name: value})


def test_a_malformed_node_list_is_named():
    with pytest.raises(PlacementError, match="SLURM_JOB_NODELIST_HET_GROUP_1 is 'a\\[1'"):
        read_placement({**HET, "SLURM_JOB_NODELIST_HET_GROUP_1": "a[1"})


SHAPES = st.lists(
    st.integers(1, 4).flatmap(lambda nodes: st.tuples(st.just(nodes), st.integers(nodes, 9))),
    min_size=1,
    max_size=4,
)


@given(SHAPES)
def test_the_local_executors_variables_give_the_shape_back(shapes):
    components = [
        Component(name=f"c{i}", nodes=nodes, num_tasks=tasks)
        for i, (nodes, tasks) in enumerate(shapes)
    ]
    shared = job_environment(components, job_id="12", job_name="x")
    for rank, own in enumerate(task_environments(components)):
        placement = read_placement({**shared, **own})
        assert placement.rank == rank
        assert placement.component_sizes == tuple(tasks for _, tasks in shapes)
        assert [len(hosts) for hosts in placement.component_hosts] == [n for n, _ in shapes]
        assert placement.local_rank < components[placement.component].tasks_per_node
