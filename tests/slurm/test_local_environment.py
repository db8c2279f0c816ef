from slurm.component import Component
from slurm.local_environment import job_environment, task_environments

COMPONENTS = [
    Component(name="ps", nodes=2, num_tasks=3),
    Component(name="trainer", nodes=2, num_tasks=4, cpus_per_task=2),
]


def test_tasks_stand_where_srun_puts_them():
    tasks = task_environments(COMPONENTS)
    assert [task["SLURM_NODEID"] for task in tasks] == ["0", "1", "0", "2", "2", "3", "3"]
    assert [task["SLURM_LOCALID"] for task in tasks] == ["0", "0", "1", "0", "1", "0", "1"]
    assert [task["SLURM_PROCID"] for task in tasks] == list("0123456")


def test_the_variables_of_a_het_step_are_set():
    env = job_environment(COMPONENTS, job_id="40", job_name="x")
    assert env["SLURM_HET_SIZE"] == "2"
    assert env["SLURM_NTASKS"] == "7"
    assert env["SLURM_JOB_ID_HET_GROUP_1"] == "41"
    assert env["SLURM_TASKS_PER_NODE_HET_GROUP_0"] == "2,1"
    assert env["SLURM_TASKS_PER_NODE"] == "2,1,2(x2)"
    assert env["SLURM_LOCAL_EXECUTOR"] == "1"


def test_a_plain_job_has_no_het_variables():
    env = job_environment(COMPONENTS[:1], job_id="40", job_name="x")
    assert not [name for name in env if "HET" in name]
