"""What the scripts write, and that they write nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.shared import results
from benchmarks.shared.headline import PROMISES, headline, with_headline
from benchmarks.shared.options import read_options
from benchmarks.shared.results import RESULTS, Claim, claims_table, conclude, publish, run_facts, table


def test_a_run_replaces_its_own_section_only(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    publish("one", "first", path)
    publish("two", "second", path)
    before = path.read_text()
    publish("one", r"first, again \1", path)
    assert path.read_text() == before.replace("first", r"first, again \1")


def test_a_hand_written_line_survives(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    publish("one", "first", path)
    path.write_text(path.read_text() + "\nBy hand.\n")
    publish("one", "again", path)
    publish("two", "second", path)
    assert "\nBy hand.\n" in path.read_text()
    assert path.read_text().count("<!-- one: begin -->") == 1


def test_missed_targets_stay_with_what_was_tried() -> None:
    text = claims_table([Claim("bias", 0.3, 0.05, high=0.25, tried="more rows"), Claim("error", 0.1, high=0.25)])
    bias, error = (line for line in text.splitlines() if line.startswith(("| bias", "| error")))
    assert "0.30 ± 0.05" in bias
    assert "MISSED" in bias
    assert error.rstrip(" |").endswith("met")
    assert "Missed: bias. Tried: more rows" in text


def test_what_was_tried_for_several_targets_stands_there_once() -> None:
    claims = [Claim(name, 0.3, high=0.25, tried=tried) for name, tried in (("a", "rows"), ("b", ""), ("c", "rows"))]
    notes = [line for line in claims_table(claims).splitlines() if line.startswith("- Missed")]
    assert notes == ["- Missed: a; c. Tried: rows", "- Missed: b. Tried: nothing yet."]


def test_the_verdict_is_on_the_number_as_measured() -> None:
    assert not Claim("bias", 0.2501, high=0.25).met
    assert Claim("coverage", 95.0, low=93, high=98).met
    assert not Claim("coverage", 98.1, low=93, high=98).met
    assert not Claim("nothing", float("nan"), high=1.0).met


def test_a_number_without_a_target_has_no_verdict() -> None:
    assert claims_table([Claim("seconds", 3.0)]).splitlines()[-1].split("|")[-2].strip() == ""


def test_tables_are_aligned() -> None:
    lines = table(["name", "value"], [["a", "1.0"], ["a longer name", "12.5"]]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert re.fullmatch(r"\| -+ \| -+: \|", lines[1])
    assert lines[2].endswith("   1.0 |")


def test_facts_name_seed_repetitions_versions_and_cores() -> None:
    facts = run_facts(7, 30)
    for word in ("seed 7", "30 repetitions", "scikit-learn", "numpy", "cores"):
        assert word in facts


@pytest.mark.parametrize(("arguments", "published"), [(["--smoke"], 0), ([], 1)])
def test_sections_are_written_unless_it_is_a_smoke_run(
    arguments: list[str], published: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[str, str]] = []
    monkeypatch.setattr(results, "publish", lambda script, body: written.append((script, body)))
    options = read_options("benchmarks.one", None, 7, arguments)
    claim = Claim("a number", 1.0)
    body = conclude("benchmarks.one", options, ["## One", "What it is."], [claim], ["| a table |"])
    assert written == [("benchmarks.one", body)][:published]
    facts = run_facts(options.seed, options.repetitions)
    assert body == f"## One\n\nWhat it is.\n\n{facts}\n\n{claims_table([claim])}\n\n| a table |"


def test_smoke_runs_have_few_repetitions() -> None:
    assert read_options("benchmarks.one", None, 7, []).repetitions == 7
    assert read_options("benchmarks.one", None, 7, ["--smoke"]).repetitions == 2
    assert read_options("benchmarks.one", None, 7, ["--smoke"], smoke=3).repetitions == 3
    assert read_options("benchmarks.one", None, 7, ["--smoke", "--repetitions", "1"]).repetitions == 1


def test_the_table_at_the_top_has_ten_lines_and_is_that_of_the_sections() -> None:
    text = RESULTS.read_text(encoding="utf-8")
    lines = headline(text).splitlines()
    assert len(lines) == 2 + 10
    assert "\n".join(lines) in text[: text.index("<!-- benchmarks.")]
    assert with_headline(text) == text


def test_the_table_at_the_top_follows_a_section_that_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    wanted = PROMISES[0]
    for value in (0.2, 0.5):
        publish(wanted.script, claims_table([Claim(wanted.measure, value, high=0.3)]), path)
    (line,) = (line for line in path.read_text(encoding="utf-8").splitlines() if wanted.words in line)
    assert "0.50" in line
    assert "MISSED" in line


def test_a_promise_without_its_line_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="has no line"):
        publish(PROMISES[0].script, claims_table([Claim("another", 0.2, high=0.3)]), tmp_path / "RESULTS.md")
