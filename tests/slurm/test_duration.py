import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm.duration import parse_duration

FORMS = {
    "5": 300,
    "0": 0,
    "5:30": 330,
    "90:00": 5400,
    "1:00:00": 3600,
    "1-0": 86400,
    "1-12:30": 86400 + 12 * 3600 + 30 * 60,
    "1-00:00:00": 86400,
    "2-03:04:05": 2 * 86400 + 3 * 3600 + 4 * 60 + 5,
    " 10 ": 600,
    "UNLIMITED": None,
    "infinite": None,
}


@pytest.mark.parametrize(("text", "seconds"), FORMS.items())
def test_every_form_of_the_manual_is_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "1h", "-5", "1:2:3:4", "1-", "1-2:3:4:5", "5:", "5.5"])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="is no time limit"):
        parse_duration(text)


@given(st.integers(0, 10), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_days_hours_minutes_seconds_add_up(days, hours, minutes, seconds):
    text = f"{days}-{hours:02d}:{minutes:02d}:{seconds:02d}"
    assert parse_duration(text) == days * 86400 + hours * 3600 + minutes * 60 + seconds
