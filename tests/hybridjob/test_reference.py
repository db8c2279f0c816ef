"""docs/job-file.md says what the code says."""

from conftest import ROOT

from hybridjob.reference import render_reference


def test_the_reference_is_up_to_date():
    written = (ROOT / "docs" / "job-file.md").read_text()
    assert written == render_reference(), "run `make docs`"
