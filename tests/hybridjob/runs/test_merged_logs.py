"""The logs of all ranks as one."""

from hybridjob.runs.merged_logs import Chosen, MergedLogs, last_events

DAY = "2026-12-01"


def texts(folder, chosen=None, tail=None):
    logs = MergedLogs(folder, chosen or Chosen())
    return [text for _, text in logs.headed(last_events(logs.new_events(), tail))]


def test_lines_are_merged_by_time_and_keep_rank_and_role(make_run):
    made = make_run().life(time=0)
    made.log(
        0, "master", f"{DAY} 09:00:00.100 master/0 INFO a\n{DAY} 09:00:02.000 master/0 INFO c\n"
    )
    made.log(3, "trainer0", f"{DAY} 09:00:01.000 trainer0/3 INFO b\n")
    assert texts(made.folder)[1:] == [
        "09:00:00 master/0 INFO a",
        "09:00:01 trainer0/3 INFO b",
        "09:00:02 master/0 INFO c",
    ]


def test_a_line_without_a_time_stays_with_the_one_before(make_run):
    made = make_run()
    made.log(0, "master", f"{DAY} 09:00:00.000 master/0 ERROR x\nTraceback\n  more\n")
    made.log(1, "ps0", f"{DAY} 09:00:00.500 ps0/1 INFO y\n")
    assert texts(made.folder)[1:] == [
        "09:00:00 master/0 ERROR x\n         master/0 Traceback\n         master/0   more",
        "09:00:00 ps0/1 INFO y",
    ]


def test_midnight_and_days_are_no_trouble(make_run):
    made = make_run()
    made.log(0, "master", "2026-12-31 23:59:59.000 master/0 INFO old\n")
    made.log(1, "ps0", "2027-01-01 00:00:01.000 ps0/1 INFO new\n")
    assert texts(made.folder)[1:] == ["23:59:59 master/0 INFO old", "00:00:01 ps0/1 INFO new"]


def test_lives_and_attempts_are_kept_apart(make_run):
    made = make_run().life().life(0, attempt=1).life(1, step=40, host="n7")
    for generation in ("1.0.0", "0.0.0", "0.1.0", "0.0.1"):
        stamp = f"{DAY} 09:0{generation.replace('.', '')[:1]}:0{generation[2]}.{generation[4]}00"
        made.log(0, "master", f"{stamp} master/0 INFO {generation}\n", generation)
    heads = [text.partition(":")[0] for text in texts(made.folder) if text.startswith("==")]
    assert heads == ["== life 0", "== life 0, attempt 1", "== life 1"]
    assert texts(made.folder)[-2].endswith("on n7, step 40 ==")


def test_ranks_are_chosen_by_role_by_name_and_by_number(make_run):
    made = make_run()
    for rank, name in enumerate(["master", "ps0", "ps1", "trainer0"]):
        made.log(rank, name, f"{DAY} 09:00:0{rank}.000 {name}/{rank} INFO hello\n")

    def seen(**chosen):
        return [text.split()[1] for text in texts(made.folder, Chosen(**chosen))[1:]]

    assert seen(role="ps") == ["ps0/1", "ps1/2"]
    assert seen(role="ps1") == ["ps1/2"]
    assert seen(rank=3) == ["trainer0/3"]
    assert seen(role="ps", rank=3) == []


def test_the_tail_is_of_all_ranks_together(make_run):
    made = make_run()
    for rank, name in enumerate(["master", "ps0"]):
        lines = "".join(f"{DAY} 09:0{n}:0{rank}.000 {name}/{rank} INFO {n}\n" for n in range(5))
        made.log(rank, name, lines)
    assert [text.split()[:2] for text in texts(made.folder, tail=3)[1:]] == [
        ["09:03:01", "ps0/1"],
        ["09:04:00", "master/0"],
        ["09:04:01", "ps0/1"],
    ]


def test_what_is_added_comes_once_and_only_when_its_line_is_whole(make_run):
    made = make_run()
    path = made.folder.log(0, "master", "0.0.0")
    logs = MergedLogs(made.folder, Chosen())
    path.write_text(f"{DAY} 09:00:00.000 master/0 INFO a\n{DAY} 09:00:01.000 mas")
    assert [one.lines[0][-1] for one in logs.new_events()] == ["a"]
    assert list(logs.new_events()) == []
    with path.open("a") as file:
        file.write("ter/0 INFO b\n")
    made.log(1, "ps0", f"{DAY} 09:00:02.000 ps0/1 INFO c\n")
    assert [one.lines[0][-1] for one in logs.new_events()] == ["b", "c"]


def test_a_log_of_nothing_but_a_traceback_is_shown(make_run):
    made = make_run().log(0, "master", "Traceback\nImportError: x\n")
    assert texts(made.folder)[1].splitlines()[1].strip() == "master/0 ImportError: x"
