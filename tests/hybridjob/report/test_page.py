"""The page: what it says, and that browsers draw it in light and dark."""

import json
import re
import subprocess
import sys
from pathlib import Path

import plotly.graph_objects as go
import pytest
import typer
from conftest import ROOT
from typer.testing import CliRunner

from hybridjob.errors import ReportError
from hybridjob.report.facts import gather
from hybridjob.report.figures import figures_of
from hybridjob.report.page import plotly_js, render_page
from hybridjob.report_cli import facts_of, report
from hybridjob.runs.find import find_run

LIBRARY = b"// the library"


def page_of(folder):
    return render_page(facts_of(find_run(str(folder.path), Path("runs"))), LIBRARY)


def text_of(page):
    return re.sub(
        r"\s+", " ", re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    )


def test_the_generations_checkpoints_and_hosts_come_from_the_logs(job_folder):
    first, second = gather(job_folder(), "completed").generations
    assert (first.start, first.end, first.failure.role) == (1010, 1090, "ps1")
    assert (second.start, second.end, second.failure) == (1100, 1150, None)
    ((time, saved),) = first.saved  # ten seconds on, over midnight
    assert (time, saved.step, saved.megabytes) == (1020, 20, 1.5)
    assert first.hosts == {0: ("master", "zeta0")}


def test_a_failed_runs_cause_stands_on_top_and_is_no_markup(job_folder):
    page = page_of(job_folder("failed"))
    assert page.index("First cause") < page.index("samples/s")
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "killed by SIGKILL <b>" not in page


def test_a_completed_run_shows_state_digest_and_metrics(job_folder):
    text = text_of(page_of(job_folder()))
    assert "First cause" not in text
    for part in ("clicks", "completed", "abc123", "0.2500", "test auc 0.7500", "100 of 100 (100%)"):
        assert part in text


def test_what_each_server_has_served_stands_beside_the_mean(job_folder):
    text = text_of(page_of(job_folder()))
    assert "server ids times the mean ps0 300 1.50 ps1 100 0.50" in text


def test_a_run_that_has_not_begun_has_a_page_too(job_folder):
    text = text_of(page_of(job_folder("pending")))
    assert "No step has been reported yet" in text


def test_a_part_that_cannot_be_read_is_named_and_the_rest_is_there(job_folder):
    folder = job_folder()
    folder.lives.write_text("{broken\n")
    text = text_of(page_of(folder))
    assert "lives.jsonl could not be read" in text
    assert "test auc 0.7500" in text


def test_every_figure_is_what_plotly_accepts(job_folder):
    figures = figures_of(gather(job_folder(), "completed"))
    assert list(figures) == ["loss", "speed", "phases-trainer", "test-auc", "timeline"]
    for figure in figures.values():
        plain = json.loads(re.sub(r'"@\w+"', '"#123456"', json.dumps(figure)))
        go.Figure(plain)  # raises for a key or a value that plotly does not know


def test_without_plotly_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ReportError, match="pip install plotly"):
        plotly_js()


def test_the_command_writes_the_page_into_the_jobs_folder(job_folder, monkeypatch):
    folder = job_folder()
    monkeypatch.chdir(folder.path.parents[2])
    app = typer.Typer()
    app.command()(report)
    for run in ("clicks", "67", "runs/clicks", str(folder.path)):
        done = CliRunner().invoke(app, [run])
        assert done.exit_code == 0, done.output
        assert done.output.startswith(str(folder.path / "report.html"))
    done = CliRunner().invoke(app, ["click"])
    assert "Did you mean clicks?" in str(done.exception)


def test_the_command_imports_no_torch():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import hybridjob.report_cli"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "jinja2" in imported
    assert not imported & {"torch", "plotly", "numpy"}


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1200), ("light", 500)])
def test_a_browser_draws_every_chart_in_light_and_dark(job_folder, browse, tmp_path, scheme, width):
    path = tmp_path / "report.html"
    path.write_text(render_page(gather(job_folder(), "completed")), encoding="utf-8")
    dark = f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"
    dom, said = browse(path, dark, f"--window-size={width},900", "--dump-dom")
    assert 'data-drawn="5"' in dom
    assert dom.count('class="main-svg"') >= 5
    ink = {"dark": "rgb(154, 166, 181)", "light": "rgb(93, 105, 121)"}[scheme]
    assert f"fill: {ink}" in dom  # the axes' words
    errors = [line for line in said.splitlines() if "CONSOLE" in line]
    assert errors == []  # a refused request, too, would be told there
