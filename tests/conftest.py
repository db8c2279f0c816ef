"""What all tests share: a clean environment, and waiting with a deadline."""

import os
import signal
import time

import hypothesis
import pytest

_OF_A_JOB = ("SLURM_", "SBATCH_", "SRUN_")


def pytest_configure(config):
    """End on SIGTERM as on Ctrl-C: fixtures then stop the clusters that they have started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # How long an example takes says more of the machine than of the code.
    # With the seed of chaos given, as in CI, these examples are the same each time as well.
    derandomize = "HYBRIDJOB_CHAOS_SEED" in os.environ
    hypothesis.settings.register_profile("any speed", deadline=None, derandomize=derandomize)
    hypothesis.settings.load_profile("any speed")


@pytest.fixture(scope="session", autouse=True)
def _no_outer_job():
    """Hide the job that the tests may themselves run in."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(_OF_A_JOB)]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def eventually():
    """Poll: eventually(predicate, deadline_s) gives the first true value, or fails."""

    def poll(predicate, deadline_s):
        deadline = time.monotonic() + deadline_s
        while True:
            value = predicate()
            if value:
                return value
            if time.monotonic() > deadline:
                pytest.fail(f"not within {deadline_s} s; the last value was {value!r}")
            time.sleep(0.05)

    return poll
