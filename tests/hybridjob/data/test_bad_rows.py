import gzip

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from hybridjob.data.config import DataConfig
from hybridjob.errors import DataError

GOOD = "1,2.5,3\n0,,4\n"
BAD_LINES = [
    ("1,2", "the line has 2 columns, expected 3: y, x, u"),
    ("1,2,3,4", "the line has 4 columns, expected 3"),
    ("1,abc,3", "column 'x': 'abc' is not a number"),
    ("1,inf,3", "column 'x': inf is not a finite number"),
    (",1,3", "column 'y': the label is empty"),
    ("maybe,1,3", "column 'y': 'maybe' is not a number"),
    ("3,1,3", "column 'y': the label is 3, expected 0 or 1"),
    ("1,1,three", "column 'u': 'three' is not a whole number"),
    ("1,1,3.5", "column 'u': '3.5' is not a whole number"),
    ("1,1,100", "column 'u': id 100 is out of range 0..99 of 'u'"),
    ("1,1,-1", "column 'u': id -1 is out of range 0..99 of 'u'"),
    ('1,"1,3', "a quote is opened and not closed"),
    ("1,\udcff,3", "column 'x': '\\\\xff' is not text in UTF-8"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_bad_row_stops_with_file_line_and_column(small_text, rows_of, line, message, end):
    text = f"y,x,u\n\n{GOOD}{line}\n{GOOD}".replace("\n", end)
    config = small_text(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=r"data\.csv, line 5, ") as caught:
        rows_of(config)
    assert message.replace("\\\\", "\\") in str(caught.value).replace("\\\\", "\\")


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_a_bad_row_is_skipped_and_counted(small_text, rows_of, line, message):
    del message
    text = f"y,x,u\n{GOOD}{line}\n{GOOD}{line}\n"
    config = small_text(text.encode(errors="surrogateescape"), on_bad_row="skip")
    rows = rows_of(config)
    assert rows["labels"] == [1, 0, 1, 0]
    assert rows["dense"] == [[2.5], [0], [2.5], [0]]
    assert rows["u"] == [[3], [4], [3], [4]]
    assert rows["skipped"] == [2]


def test_the_line_is_right_deep_in_a_big_file(small_text, rows_of):
    lines = [f"{i % 2},{i},{i % 100}" for i in range(20_000)]
    lines[13_456] = "1,oops,3"
    config = small_text("y,x,u\n" + "\n".join(lines))
    with pytest.raises(DataError, match="line 13458, column 'x': 'oops'"):
        rows_of(config)


def test_skipped_rows_are_counted_alike_after_a_resume(small_text, opened):
    lines = [f"{i % 2},{'?' if i % 7 == 0 else i},{i % 100}" for i in range(7000)]
    config = small_text("y,x,u\n" + "\n".join(lines), on_bad_row="skip", shuffle_rows=500)
    reader = opened(config)
    positions = [batch.position for batch in reader.batches(0)]
    assert reader.skipped_rows == 1000
    for position in positions[:: len(positions) // 5]:
        again = opened(config)
        assert (
            len(list(again.batches(0, position))) == len(positions) - positions.index(position) - 1
        )
        assert again.skipped_rows == 1000


def test_other_text_forms_give_the_same_rows(small_text, rows_of):
    expected = rows_of(small_text("y,x,u\n" + GOOD))
    assert rows_of(small_text("\ufeffy,x,u\n" + GOOD)) == expected
    assert rows_of(small_text(("y,x,u\n" + GOOD).strip())) == expected
    assert (
        rows_of(small_text(gzip.compress(("y,x,u\n" + GOOD).encode()), name="a.csv.gz")) == expected
    )
    tabs = ("y,x,u\n" + GOOD).replace(",", "\t")
    assert rows_of(small_text(tabs, name="a.tsv", format="tsv")) == expected
    bare = small_text("\ufeff" + GOOD, header=False, column_names=["y", "x", "u"])
    assert rows_of(bare) == expected
    typed = small_text("y:float,x:float,u:token\n" + GOOD, header_type_separator=":")
    assert rows_of(typed) == expected
    quoted = small_text('"y","x","u"\n"1"," 2.5 ","3"\n"0",,"4"\n')
    assert rows_of(quoted) == expected


def test_line_ends_in_quoted_cells_are_read_where_asked_for(small_text, rows_of):
    text = 'y,note,x,u\n1,"a\nb",2.5,3\n0,"c, ""d""",x,4\n'
    config = small_text(text, newlines_in_values=True)
    with pytest.raises(DataError, match="line 4, column 'x'"):
        rows_of(config)
    with pytest.raises(DataError, match=r"line 2, a quote is opened .*newlines_in_values"):
        rows_of(small_text(text))


def test_damaged_packed_files_are_named(small_text, rows_of):
    packed = gzip.compress(b"y,x,u\n" + b"1,2,3\n" * 999)
    config = small_text(packed[:-8] + b"0123" + packed[-4:], name="a.csv.gz")
    with pytest.raises(DataError, match=r"cannot read .*a\.csv\.gz"):
        rows_of(config)


def test_missing_files_and_columns_are_named(small_text, rows_of, tmp_path):
    with pytest.raises(DataError, match=r"data.path: file .*nix.csv does not exist"):
        rows_of(small_text("", path=str(tmp_path / "nix.csv")))
    with pytest.raises(DataError, match="no file matches"):
        rows_of(small_text("", path=str(tmp_path / "nix*")))
    with pytest.raises(DataError, match="is a folder"):
        rows_of(small_text("", path=str(tmp_path)))
    with pytest.raises(DataError, match="has no header"):
        rows_of(small_text(""))
    with pytest.raises(DataError, match=r"data.csv: there is no column 'x': did you mean 'xx'"):
        rows_of(small_text("y,xx,u\n" + GOOD))
    with pytest.raises(DataError, match="'y' is named twice"):
        rows_of(small_text("y,y,u\n" + GOOD))
    with pytest.raises(DataError, match="as parquet"):
        rows_of(small_text(GOOD, format="parquet"))


def test_bad_rows_of_parquet_have_file_and_row(tmp_path, rows_of):
    path = tmp_path / "a.parquet"
    table = pa.table({"y": [True, False, None, True], "u": [[1], [2, 3], [4], [7, 200]]})
    parquet.write_table(table, path, row_group_size=2)
    keys = {"column": "u", "encode": "identity", "num_embeddings": 100}
    config = DataConfig(format="parquet", path=str(path), label="y", categorical=[keys])
    with pytest.raises(DataError, match=r"a.parquet, row 3 \(row group 1\), column 'y': .* empty"):
        rows_of(config)
    rows = rows_of(config.model_copy(update={"on_bad_row": "skip"}))
    assert rows["u"] == [[1], [2, 3]]
    assert rows["skipped"] == [2]
    text = DataConfig(format="parquet", path=str(path), label="y", numeric=[{"column": "u"}])
    with pytest.raises(DataError, match=r"column 'u' holds list<.*a number is expected"):
        rows_of(text)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(alphabet='01,,,"\n\n\r x\u00e9\t.', max_size=60),
    quote=st.booleans(),
    whole=st.booleans(),
)
@example(text=',0",\r0', quote=True, whole=True)
def test_any_text_gives_rows_or_bad_rows(small_text, rows_of, text, quote, whole):
    keys = {"quote": quote, "newlines_in_values": whole}
    config = small_text("y,x,u\n" + text, on_bad_row="skip", **keys)
    rows = rows_of(config)
    if not (quote and whole):
        lines = [line for line in text.replace("\r", "\n").split("\n") if line]
        assert len(rows["labels"]) + rows["skipped"][0] == len(lines)
    strict = config.model_copy(update={"on_bad_row": "stop"})
    if rows["skipped"][0]:
        with pytest.raises(DataError, match=r"data\.csv, line \d+, "):
            rows_of(strict)
    else:
        assert rows_of(strict) == rows
