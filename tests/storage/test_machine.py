"""Limits of a container are respected: CPU affinity, and cgroups of version 1 and 2."""

import os

import pytest

from dragoman.storage.machine import available_cpus, available_memory

GIGABYTE = 1 << 30


@pytest.fixture
def root(tmp_path):
    """A file system that says: 16 GB free, and 8 CPUs by affinity (see `_eight_cpus`)."""
    write(tmp_path, "proc/meminfo", f"MemTotal: 99 kB\nMemAvailable: {16 * GIGABYTE // 1024} kB\n")
    return tmp_path


@pytest.fixture(autouse=True)
def _eight_cpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_limits_the_whole_machine_is_available(root):
    assert available_cpus(root) == 8
    assert available_memory(root) == 16 * GIGABYTE


def test_cpu_affinity_is_respected(root, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert available_cpus(root) == 2


@pytest.mark.parametrize(
    ("quota", "expected"), [("max 100000", 8), ("150000 100000", 2), ("1000 100000", 1)]
)
def test_the_cpu_quota_of_cgroup_2_is_rounded_up(root, quota, expected):
    write(root, "proc/self/cgroup", "0::/\n")
    write(root, "sys/fs/cgroup/cpu.max", quota)
    assert available_cpus(root) == expected


@pytest.mark.parametrize(("quota", "expected"), [(-1, 8), (300000, 3)])
def test_the_cpu_quota_of_cgroup_1_is_respected(root, quota, expected):
    write(root, "proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", f"{quota}\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert available_cpus(root) == expected


def test_the_memory_limit_of_cgroup_2_counts_what_is_in_use(root):
    write(root, "proc/self/cgroup", "0::/job\n")
    write(root, "sys/fs/cgroup/job/memory.max", f"{4 * GIGABYTE}\n")
    write(root, "sys/fs/cgroup/job/memory.current", f"{3 * GIGABYTE}\n")
    write(root, "sys/fs/cgroup/job/memory.stat", f"anon 5\ninactive_file {GIGABYTE}\n")
    assert available_memory(root) == 2 * GIGABYTE


def test_the_limit_of_a_parent_cgroup_applies_too(root):
    write(root, "proc/self/cgroup", "0::/user/job\n")
    for folder, limit in (("user", 1), ("user/job", 4)):
        write(root, f"sys/fs/cgroup/{folder}/memory.max", f"{limit * GIGABYTE}\n")
        write(root, f"sys/fs/cgroup/{folder}/memory.current", "0\n")
    assert available_memory(root) == GIGABYTE


def test_the_memory_limit_of_cgroup_1_is_respected(root):
    write(root, "proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n")
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2 * GIGABYTE}\n")
    write(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", f"{GIGABYTE}\n")
    assert available_memory(root) == GIGABYTE


def test_a_cgroup_over_its_limit_has_no_memory_left(root):
    write(root, "proc/self/cgroup", "0::/\n")
    write(root, "sys/fs/cgroup/memory.max", "100\n")
    write(root, "sys/fs/cgroup/memory.current", "200\n")
    assert available_memory(root) == 0


def test_a_system_without_these_files_gets_a_cautious_value(tmp_path):
    assert available_memory(tmp_path) == 4 * GIGABYTE
    assert available_cpus(tmp_path) == 8
