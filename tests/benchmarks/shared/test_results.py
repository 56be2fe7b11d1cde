"""What the scripts write: a CSV each, and the page that is made from all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.shared import results
from benchmarks.shared.markdown import cells, table
from benchmarks.shared.options import read_options
from benchmarks.shared.page import MOST_ROWS, PROMISES, page, read_figures
from benchmarks.shared.results import RESULTS, Claim, Figure, claims_table, conclude, publish

PAGE = (RESULTS.parent / "RESULTS.md").read_text(encoding="utf-8")
RUN = read_options("benchmarks.room.one", None, 7, ["--seed", "3"])


def test_a_csv_has_every_figure_with_what_it_was_measured_by(tmp_path: Path) -> None:
    claims = [
        Claim("bias (points)", 0.304, 0.05, high=0.25, tried="more rows."),
        Claim("error (%)", 0.1, high=0.25, tried="unseen"),
        Claim("seconds", 3.0),
    ]
    publish("benchmarks.room.one", RUN, claims, [table(["data", "trees"], [["wine", "80 ± 3"]])], tmp_path / "results")
    found = read_figures(tmp_path / "results" / "room.one.csv")
    assert tuple(found[0]) == Figure._fields
    assert {(row["seed"], row["repetitions"]) for row in found} == {("3", "7")}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"]) and int(row["cores"]) for row in found)
    assert [[row[name] for name in ("measure", "value", "spread", "target", "verdict", "tried")] for row in found] == [
        ["bias (points)", "0.30", "0.05", "at most 0.25", "MISSED", "more rows."],
        ["error (%)", "0.10", "", "at most 0.25", "met", ""],
        ["seconds", "3.00", "", "", "", ""],
        ["data: wine: trees", "80", "3", "", "", ""],
    ]


def test_a_run_replaces_its_own_figures_only(tmp_path: Path) -> None:
    for script, value in (("room.one", 1.0), ("room.two", 2.0), ("room.one", 3.0)):
        publish(f"benchmarks.{script}", RUN, [Claim("a number", value, high=2.0)], directory=tmp_path / "results")
    values = [read_figures(tmp_path / "results" / f"room.{one}.csv")[0]["value"] for one in ("one", "two")]
    assert values == ["3.00", "2.00"]
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "Of 2 targets, 1 are met and 1 are missed." in text
    assert re.search(r"\| \[room.one\]\(results/room.one.csv\) +\| +a number \| +3.00 \| at most 2 \| +1 of 1 \|", text)


@pytest.mark.parametrize(("arguments", "published"), [(["--smoke"], 0), ([], 1)])
def test_figures_are_kept_unless_it_is_a_smoke_run(
    arguments: list[str], published: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    monkeypatch.setattr(results, "publish", lambda script, *_: kept.append(script))
    options = read_options("benchmarks.room.one", None, 7, arguments)
    body = conclude("benchmarks.room.one", options, [Claim("a number", 1.0)], ["| a table |"], "the real data")
    assert kept == ["benchmarks.room.one"][:published]
    for words in ("## room.one", f"{options.repetitions} repetitions", "Left out: the real data.", "| a table |"):
        assert words in body


def test_the_verdict_is_on_the_number_as_measured() -> None:
    assert not Claim("bias", 0.2501, high=0.25).met
    assert Claim("coverage", 95.0, low=93, high=98).met
    assert not Claim("coverage", 98.1, low=93, high=98).met
    assert not Claim("nothing", float("nan"), high=1.0).met
    assert claims_table([Claim("seconds", 3.0)]).splitlines()[-1].split("|")[-2].strip() == ""


def test_a_cell_is_named_by_its_table_row_and_column() -> None:
    rows = [["**wine**", "paper", "5", "1.5 ± 0.2", ""], ["", "here", "5", "-", "+2"], ["iris", "here", "5", "3", "4"]]
    text = f"Before.\n\n{table(['data', 'source', 'trees', 'error', 'bias'], rows)}\n\nAfter."
    assert [*cells(text)] == [
        ("data: wine, paper: trees", "5", ""),
        ("data: wine, paper: error", "1.5", "0.2"),
        ("data: wine, here: trees", "5", ""),
        ("data: wine, here: bias", "+2", ""),
        ("data: iris, here: trees", "5", ""),
        ("data: iris, here: error", "3", ""),
        ("data: iris, here: bias", "4", ""),
    ]


def test_numbers_that_tell_rows_apart_name_them_and_columns_of_one_name_follow_the_one_before() -> None:
    rows = [["easy", "5", "1", "2", "3", "4"], ["easy", "8", "5", "6", "7", "8"]]
    found = [name for name, *_ in cells(table(["kind", "samples", "now", "bias", "later", "bias"], rows))]
    assert found[:4] == [f"kind: easy, 5: {column}" for column in ("now", "now, bias", "later", "later, bias")]


def test_the_page_is_that_of_the_csv_files_and_short() -> None:
    found = {path.stem: read_figures(path) for path in sorted(RESULTS.glob("*.csv"))}
    assert page(found) == PAGE
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    # Two tables, each with a header and a rule.
    assert len(lines) - 4 <= MOST_ROWS
    assert len(PAGE.split()) <= 3000


def test_a_script_that_misses_a_target_is_named_even_where_there_are_too_many_lines() -> None:
    row = {"measure": "a", "value": "2", "spread": "", "target": "at most 1", "verdict": "MISSED"}
    text = page({f"room.s{number}": [row] * (1 + (number == 3)) for number in range(MOST_ROWS + 1)})
    lines = [line for line in text.splitlines() if line.startswith("| [")]
    assert len(lines) == MOST_ROWS
    assert lines[0].startswith("| [room.s3]")
    assert f"[room.s{MOST_ROWS}](results/room.s{MOST_ROWS}.csv) (1, 1 missed)" in text


def test_every_csv_is_of_a_script_that_exists() -> None:
    scripts = [path.stem.replace(".", "/") for path in RESULTS.glob("*.csv")]
    assert [script for script in scripts if not (RESULTS.parent / f"{script}.py").exists()] == []


def test_a_promise_without_its_figure_is_an_error() -> None:
    row = {"measure": "another", "value": "0", "spread": "", "target": "at most 1", "verdict": "met"}
    with pytest.raises(LookupError, match="has no"):
        page({PROMISES[0].script: [row]})
