"""A snapshot is taken only where there is memory for it."""

import pytest

from hybridjob.checkpoint.memory import available_bytes, fits

MB = 1 << 20


@pytest.fixture
def root(tmp_path):
    write(tmp_path / "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8192 kB\n")
    return tmp_path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_limits_the_machine_decides(root):
    write(root / "proc/self/cgroup", "0::/\n")
    assert available_bytes(root) == 8 * MB


def test_the_limit_of_a_group_above_counts_and_unused_cache_is_free(root):
    write(root / "proc/self/cgroup", "0::/job/step\n")
    group = root / "sys/fs/cgroup/job"
    write(group / "step/memory.max", "max\n")
    write(group / "step/memory.current", "7\n")
    write(group / "memory.max", f"{6 * MB}\n")
    write(group / "memory.current", f"{5 * MB}\n")
    write(group / "memory.stat", f"anon 3\ninactive_file {2 * MB}\n")
    assert available_bytes(root) == 3 * MB


def test_the_limit_of_a_version_1_group_counts(root):
    write(root / "proc/self/cgroup", "5:cpu:/x\n4:memory:/slurm/job\n")
    group = root / "sys/fs/cgroup/memory/slurm"
    write(group / "memory.limit_in_bytes", f"{4 * MB}\n")
    write(group / "memory.usage_in_bytes", f"{3 * MB}\n")
    assert available_bytes(root) == MB


def test_a_margin_is_left_and_neighbours_are_counted():
    assert fits(1000 * MB, available=1400 * MB)
    assert not fits(1000 * MB, available=1300 * MB)
    assert not fits(1000 * MB, processes=2, available=1400 * MB)
