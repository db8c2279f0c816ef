"""Job folders as runs leave them, and a browser to look at pages."""

import json
import os
import shutil
import subprocess

import pytest

from hybridjob.jobfolder import JobFolder

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FAILURE = {"rank": 2, "role": "ps1", "host": "zeta1", "message": "killed by SIGKILL <b>%{x}</b>"}


def _log(folder, name, lines, modified):
    path = folder / "logs" / name
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, (modified, modified))


@pytest.fixture
def job_folder(tmp_path):
    """Make the folder of a job that lost a server once and went on: job_folder(state)."""

    def make(state="completed"):
        folder = JobFolder(tmp_path / "runs" / "clicks" / "67")
        folder.create()
        (folder.path / "rendezvous").mkdir()
        folder.job_file.write_text('name = "clicks"\n[ps]\nnodes = 2\n[trainer]\nmem = "4G"\n')
        if state == "pending":
            return folder
        folder.lives.write_text(
            json.dumps({"life": 0, "attempt": 0, "host": "zeta0", "step": 0, "time": 1000.0}) + "\n"
        )
        for name, time in (("0.0.0", 1010), ("0.0.1", 1100)):
            folder.endpoint(name).write_text("{}")
            os.utime(folder.endpoint(name), (time, time))
        folder.failure("0.0.0").write_text(json.dumps(_FAILURE))
        os.utime(folder.failure("0.0.0"), (1090, 1090))
        here = "23:59:59 master/0 INFO all ranks are here host=zeta0 ranks=4"
        saved = "00:00:09 master/0 INFO checkpoint saved step=20 kind=base mb=1.5 seconds=0.25"
        _log(folder.path, "rank-000-master.gen-0.0.0.log", [here, saved, "no stamp"], 1090)
        _log(folder.path, "rank-000-master.gen-0.0.1.log", [here], 1150)
        with folder.metrics.open("w") as file:
            for step in range(10, 110, 10):
                phases = {"seconds/lookup": 0.5, "seconds/push": 0.25}
                values = {"loss": 1 / step, "samples_per_s": 100.0, "of_steps": 100, **phases}
                file.write(json.dumps({"step": step, "time": 1100 + step, **values}) + "\n")
            file.write(json.dumps({"step": 100, "time": 1201, "test/auc": 0.75}) + "\n")
        summary = {"state": state, "name": "clicks", "state_digest": "abc123", "final_loss": 0.25}
        summary["ids_served"] = [300, 100]
        if state == "failed":
            summary["cause"] = "rank 3 (trainer0 on alpha0): </script><script>alert(1)</script>"
        if state != "running":
            folder.summary.write_text(json.dumps(summary))
        return folder

    return make


@pytest.fixture(scope="session")
def browse(tmp_path_factory):
    """Open a page in a headless browser: browse(path, dark=..., width=...) gives the page's DOM."""
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser here: none of {', '.join(_BROWSERS)} is on the PATH")

    def open_page(path, *options):
        profile = tmp_path_factory.mktemp("browser")
        done = subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *(f"--user-data-dir={profile}", "--virtual-time-budget=10000"),
                *("--enable-logging=stderr", "--hide-scrollbars", *options, path.as_uri()),
            ],
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        )
        return done.stdout, done.stderr

    return open_page
