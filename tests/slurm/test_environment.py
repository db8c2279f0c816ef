from slurm.environment import scrubbed


def test_what_belongs_to_an_outer_job_is_dropped():
    env = {"SLURM_CPUS_PER_TASK": "4", "SLURM_CPU_BIND": "x", "SBATCH_PARTITION": "p", "PATH": "/b"}
    assert scrubbed({**env, "SRUN_CPUS_PER_TASK": "4", "SQUEUE_FORMAT": "%j"}) == {"PATH": "/b"}


def test_what_finds_the_controller_is_kept():
    env = {"SLURM_CONF": "/etc/s.conf", "SLURM_CLUSTERS": "a", "SLURM_JWT": "t", "SLURMISH": "1"}
    assert scrubbed(env) == env


def test_the_given_mapping_is_left_alone():
    env = {"SLURM_JOB_ID": "1"}
    scrubbed(env)
    assert env == {"SLURM_JOB_ID": "1"}
