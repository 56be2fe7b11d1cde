"""Answers in the logs of evaluation tools, and tables on the command line."""

from __future__ import annotations

import json
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import ens_plugin
from ens_plugin.cli.main import cli
from ens_plugin.errors import InputError
from ens_plugin.votes import last_number, read_log

LOGS = Path(__file__).parent / "logs"
needs_parquet = pytest.mark.skipif(find_spec("pyarrow") is None, reason="PyArrow is not installed")


def archive(path: Path) -> Path:
    """The recorded log as an archive, as inspect-ai writes it: a document for each sample."""
    with zipfile.ZipFile(path, "w") as written:
        for sample in json.loads((LOGS / "inspect.json").read_text())["samples"]:
            written.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
    return path


def test_inspect_log_has_a_row_for_each_epoch() -> None:
    table = read_log(LOGS / "inspect.json")
    assert table.groupby("question").size().to_dict() == {f"sum-{place}": 5 for place in range(4)}
    assert table.truth.unique().tolist() == ["0", "2", "4", "6"]
    assert set(table.answer) <= {str(place) for place in range(8)}


@pytest.mark.skipif(find_spec("inspect_ai") is not None, reason="inspect-ai reads its archives itself")
def test_inspect_archive_is_the_same(tmp_path: Path) -> None:
    order = ["question", "answer", "truth"]
    found = read_log(archive(tmp_path / "log.eval")).sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(found, read_log(LOGS / "inspect.json").sort_values(order, ignore_index=True))


@pytest.mark.skipif(find_spec("inspect_ai") is not None, reason="inspect-ai reads its archives itself")
def test_archive_of_another_compression_says_what_to_do(tmp_path: Path) -> None:
    path = archive(tmp_path / "log.eval")
    # Zstandard, which newer releases of inspect-ai use, is method 93.
    content = path.read_bytes()
    for head, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = content.find(head)
        while place >= 0:
            content = content[: place + at] + (93).to_bytes(2, "little") + content[place + at + 2 :]
            place = content.find(head, place + 1)
    path.write_bytes(content)
    with pytest.raises(InputError, match="inspect log convert --to json"):
        read_log(path)


def test_samples_that_failed_are_left_out(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect.json").read_text())
    log["samples"][0]["error"] = {"message": "no connection"}
    (tmp_path / "log.json").write_text(json.dumps(log))
    assert len(read_log(tmp_path / "log.json")) == 19


def test_an_answer_that_no_scorer_read_is_missing(tmp_path: Path) -> None:
    log = json.loads((LOGS / "inspect.json").read_text())
    log["samples"][0]["scores"]["match"]["answer"] = None
    log["samples"][1]["scores"] = {}
    (tmp_path / "log.json").write_text(json.dumps(log))
    table = read_log(tmp_path / "log.json")
    assert pd.isna(table.answer[0])
    assert table.answer[1] == log["samples"][1]["output"]["completion"]


def test_harness_samples_of_the_first_filter() -> None:
    table = read_log(LOGS / "harness.jsonl")
    assert table.groupby("question").size().tolist() == [5] * 4
    assert table.answer.str.fullmatch(r"\d").all()


def test_harness_samples_without_filtered_repeats(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (LOGS / "harness.jsonl").read_text().splitlines()]
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines if line["filter"] == "flexible-extract"))
    table = read_log(path)
    assert table.answer.str.contains("plus").all()
    assert table.answer.map(last_number).str.fullmatch(r"\d").all()


@needs_parquet
@pytest.mark.parametrize("release", ["old", "new"])
def test_lighteval_details(release: str, tmp_path: Path) -> None:
    row = (
        {"predictions": ["4", "5", "4"], "gold": ["4"]}
        if release == "old"
        else {
            "doc": {"query": "2+2", "choices": ["4"], "gold_index": [0]},
            "model_response": {"text": ["4", "5", "4"], "text_post_processed": None},
        }
    )
    path = tmp_path / "details.parquet"
    pd.DataFrame([row, row]).to_parquet(path)
    table = read_log(path)
    assert table.answer.tolist() == ["4", "5", "4"] * 2
    assert table.question.tolist() == [0, 0, 0, 1, 1, 1]
    assert table.truth.unique().tolist() == ["4"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.txt", "x", "unknown form"),
        ("log.json", "{", "cannot be read as such a log"),
        ("log.json", "{}", "cannot be read as such a log"),
        ("log.json", '{"samples": []}', "holds no samples"),
        ("log.jsonl", '{"a": 1}', "cannot be read as such a log"),
        ("log.eval", "no archive", "cannot be read as such a log"),
        ("log.parquet", "no table", "cannot be read as such a log"),
    ],
)
def test_other_files_are_refused(name: str, content: str, message: str, tmp_path: Path) -> None:
    if name == "log.eval" and find_spec("inspect_ai") is not None:
        pytest.skip("inspect-ai reads its archives itself")
    with pytest.raises(InputError, match=f"no file .*{name}"):
        read_log(tmp_path / name)
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_log(tmp_path / name)


NUMBERS = {
    "12": "12", "is $1,250.50.": "1250.5", "-3 or -4": "-4", "none": None, "3.00": "3", 7: "7", ".5": "0.5",
    "1e5": "100000", "3-5": "5", "on 2024-01-05": "5", "1,2,3": "3", "007": "7", "-0": "0", "x=-7": "-7", "5.": "5",
    "1,234,567": "1234567", "1e999": "999",
}  # fmt: skip


@pytest.mark.parametrize("text", NUMBERS)
def test_last_number(text: str) -> None:
    assert last_number(text) == NUMBERS[text]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["votes", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def samples() -> pd.DataFrame:
    rows = [(f"q{q}", str(answer), "1") for q in range(40) for answer in (1, 1, q % 3, q % 2)]
    return pd.DataFrame(rows, columns=["id", "reply", "gold"])


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_command_reads_tables(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"samples{ending}"
    table = samples()
    table.to_csv(path, index=False) if ending == ".csv" else table.to_json(path, orient="records", lines=True)
    expected = ens_plugin.analyze_votes(table.set_axis(["question", "answer", "truth"], axis=1))
    found = run(str(path), "--question", "id", "--answer", "reply", "--truth", "gold")
    assert found.strip() == str(expected).strip()


def test_command_reads_logs() -> None:
    assert "4 questions of 5 samples each" in run(str(LOGS / "inspect.json"))
    assert json.loads(run(str(LOGS / "inspect.json"), "--format", "json"))["n_questions"] == 4
    assert "majority right" in run(str(LOGS / "harness.jsonl"), "--normalize", "number")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--question", "id"], "--answer"),
        (["--truth", "gold"], "Add --question and --answer"),
        (["--question", "id", "--answer", "nowhere"], "no column"),
    ],
)
def test_command_refuses(arguments: list[str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    samples().to_csv(path, index=False)
    result = CliRunner().invoke(cli, ["votes", str(path), *arguments])
    assert result.exit_code != 0
    assert message in result.output or message in str(result.exception)
