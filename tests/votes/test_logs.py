"""Answers in the logs of evaluation tools, and tables on the command line."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import ens_plugin
from ens_plugin.cli.main import cli, main
from ens_plugin.errors import InputError
from ens_plugin.votes import last_number, read_log
from ens_plugin.votes.logs import UNPACKED

LOGS = Path(__file__).parent / "logs"
needs_parquet = pytest.mark.skipif(find_spec("pyarrow") is None, reason="PyArrow is not installed")


def test_inspect_log_has_a_row_for_each_epoch() -> None:
    table = read_log(LOGS / "inspect.json")
    assert table.groupby("question").size().to_dict() == {f"sum-{place}": 5 for place in range(4)}
    assert table.truth.unique().tolist() == ["0", "2", "4", "6"]
    assert set(table.answer) <= {str(place) for place in range(8)}


def test_an_archive_that_inspect_wrote() -> None:
    table = read_log(LOGS / "inspect.eval")
    # The first scorer reads nothing ever, the second not always, and the third all of each text.
    assert table.answer.tolist() == ["4", "4", "4", None, "4", "4", None, "4", None]
    assert table.question.tolist() == ["q0", "q1", "q2"] * 3
    assert table.truth.tolist() == [frozenset({"4", "four"}), "4", "4"] * 3


def test_archive_of_another_compression_says_what_to_do(tmp_path: Path) -> None:
    content = (LOGS / "inspect.eval").read_bytes()
    # 97 is no compression that Python knows or will.
    for head, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = content.find(head)
        while place >= 0:
            content = content[: place + at] + (97).to_bytes(2, "little") + content[place + at + 2 :]
            place = content.find(head, place + 1)
    (tmp_path / "log.eval").write_bytes(content)
    with pytest.raises(InputError, match="inspect log convert --to json"):
        read_log(tmp_path / "log.eval")


def test_choices_that_are_all_to_be_chosen_are_one_truth() -> None:
    table = read_log(LOGS / "inspect_choices.json")
    assert table.answer.tolist() == ["B", "A, B", "B"]
    assert table.truth.unique().tolist() == ["A, B"]


def changed(tmp_path: Path, change: Callable[[list[dict[str, Any]]], object]) -> pd.DataFrame:
    """What is read of the log of inspect-ai with other samples."""
    log = json.loads((LOGS / "inspect.json").read_text())
    change(log["samples"])
    (tmp_path / "log.json").write_text(json.dumps(log))
    return read_log(tmp_path / "log.json")


def test_samples_that_failed_have_no_answer(tmp_path: Path) -> None:
    table = changed(tmp_path, lambda samples: samples[0].update(error={"message": "no connection"}))
    assert table.answer.isna().tolist() == [True] + [False] * 19


def test_an_answer_that_no_scorer_read_is_missing(tmp_path: Path) -> None:
    def change(samples: list[dict[str, Any]]) -> None:
        samples[0]["scores"]["match"]["answer"] = None
        samples[1]["scores"] = {}
        samples[2]["scores"]["match"]["answer"] = "  "
        del samples[3]["scores"]["match"]["answer"]

    assert changed(tmp_path, change).answer.isna().tolist() == [True] * 4 + [False] * 16


def test_the_first_scorer_that_reads_answers_reads_all(tmp_path: Path) -> None:
    def change(samples: list[dict[str, Any]]) -> None:
        for sample in samples:
            sample["scores"] = {"judge": {"value": 1}, "first": {"answer": None}, "second": {"answer": "7"}}
        samples[5]["scores"]["first"]["answer"] = "3"

    assert changed(tmp_path, change).answer.dropna().to_dict() == {5: "3"}


def test_a_log_without_scores_has_whole_texts(tmp_path: Path) -> None:
    def change(samples: list[dict[str, Any]]) -> None:
        for sample in samples:
            sample["scores"] = None

    assert changed(tmp_path, change).answer.str.startswith("The answer is").all()


def test_one_answer_that_is_accepted_is_no_set(tmp_path: Path) -> None:
    table = changed(tmp_path, lambda samples: samples[0].update(target=["0", "0", ""]))
    assert table.truth[0] == "0"


def test_an_empty_target_is_not_known(tmp_path: Path) -> None:
    assert changed(tmp_path, lambda samples: samples[0].update(target="")).truth[0] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": {"a": 1}}, "target in it is {'a': 1}, and must be str or list"),
        ({"target": [["4"]]}, r"an answer in it is \['4'\], and must be a text or a number"),
        ({"scores": ["4"]}, r"scores in it is \['4'\], and must be dict or NoneType"),
        ({"scores": {"match": "4"}}, "match in it is '4', and must be dict"),
        ({"scores": {"match": {"answer": ["4"]}}}, r"an answer in it is \['4'\]"),
        ({"id": None}, "id in it is None"),
        ({"epoch": True}, "epoch in it is True, and must be int"),
        ({"epoch": 2}, "the sample 'sum-0' of epoch 2 twice"),
        ({"scores": {"match": {"answer": "\ud83d"}}}, "half of a character"),
    ],
)
def test_samples_of_another_shape_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        changed(tmp_path, lambda samples: samples[0].update(change))


def test_harness_samples_of_the_first_filter() -> None:
    table = read_log(LOGS / "harness.jsonl")
    assert table.groupby("question").size().tolist() == [5] * 4
    assert table.answer.str.fullmatch(r"\d").all()


def test_samples_that_the_harness_wrote() -> None:
    table = read_log(LOGS / "harness_accepted.jsonl")
    assert table.answer.tolist() == ["4", None, "4", "5", "4", "5", "5", "5", None, "5", "4", "4"]
    assert table.truth.tolist() == [several := frozenset({"4", "four"})] * 4 + ["4"] * 4 + [several] * 4


def lines(tmp_path: Path, *changes: dict[str, Any]) -> pd.DataFrame:
    """What is read of lines that say the same but for what is changed."""
    line = {"doc_id": 0, "target": "4", "resps": [["4", "5"]], "filtered_resps": [["4", "5"]]}
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(json.dumps({**line, **change}) for change in changes))
    return read_log(path)


def test_harness_samples_without_filtered_repeats(tmp_path: Path) -> None:
    changes = [json.loads(line) for line in (LOGS / "harness.jsonl").read_text().splitlines()]
    table = lines(tmp_path, *(line for line in changes if line["filter"] == "flexible-extract"))
    assert table.answer.str.contains("plus").all()
    assert table.answer.map(last_number).str.fullmatch(r"\d").all()


@pytest.mark.parametrize(
    ("filtered", "answers"),
    [
        (["45"], ["4", "5"]),  # one text of two letters for two samples
        ([["4"]], ["4", "5"]),
        ([["[invalid]", "5"]], [None, "5"]),
        ([["", "5"]], [None, "5"]),
        ([[None, "5"]], [None, "5"]),
        ([], ["4", "5"]),
    ],
)
def test_what_a_filter_has_left(filtered: list[Any], answers: list[Any], tmp_path: Path) -> None:
    assert lines(tmp_path, {"filtered_resps": filtered}).answer.tolist() == answers


def test_what_a_filter_has_left_of_one_response(tmp_path: Path) -> None:
    one = {"resps": [["It is 12."]]}
    assert lines(tmp_path, one | {"filtered_resps": ["12"]}).answer.tolist() == ["12"]
    assert lines(tmp_path, one | {"filtered_resps": ["[invalid]"]}).answer.tolist() == [None]


@pytest.mark.parametrize(
    ("target", "truth"),
    [
        ("4", "4"),
        (4, 4),
        (["4", "four"], frozenset({"4", "four"})),
        ("['4', 'four']", frozenset({"4", "four"})),
        ("['4']", "4"),
        ("[1, 2]", "[1, 2]"),  # an interval
        ('["4", "four"]', '["4", "four"]'),  # not as Python writes a list
        ("[4", "[4"),
        ("Paris", "Paris"),
        (None, None),
        (float("nan"), None),
    ],
)
def test_targets_of_the_harness(target: Any, truth: Any, tmp_path: Path) -> None:
    assert lines(tmp_path, {"target": target}).truth[0] == truth


def test_older_releases_log_a_document_once_for_each_filter(tmp_path: Path) -> None:
    assert lines(tmp_path, {}, {"filtered_resps": ["4"]}, {"doc_id": 1}).question.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([{}, {"resps": [["4", "4"]]}], "document 0 in it has other responses on another line"),
        ([{"filter": "a"}, {"filter": "b", "doc_id": 1}], "document 1 in it has no line of the filter 'a'"),
        ([{"resps": ["45"]}], "1 requests, and not one for text"),
        ([{"resps": [["-1.5", "True"], ["-2", "False"]]}], "2 requests"),
        ([{"resps": [[["-1.5", "True"]]]}], r"an answer in it is \['-1.5', 'True'\]"),
        ([{"target": {"a": 1}}], "an answer in it is {'a': 1}"),
        ([{"doc_id": 1.5}], "doc_id in it is 1.5"),
        ([{}, {"doc_id": None}], "doc_id in it is None"),
        ([{}, {"resps": None}], "resps in it is None"),
    ],
)
def test_lines_of_another_shape_are_refused(changes: list[dict[str, Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        lines(tmp_path, *changes)


def test_verdicts_that_promptfoo_wrote(tmp_path: Path) -> None:
    log = json.loads((LOGS / "promptfoo.json").read_text())
    table = read_log(LOGS / "promptfoo.json")
    # Two tests of one question, in each of two prompts to each of two providers, three times.
    assert table.groupby("question").size().tolist() == [3] * 8
    assert table.case.nunique() == 2
    assert table.system.nunique() == 4
    results = log["results"]["results"]
    failed = [result["failureReason"] == 2 for result in results]
    assert sum(failed) == 1
    verdicts = [None if error else result["success"] for error, result in zip(failed, results, strict=True)]
    assert table.answer.tolist() == verdicts
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, results)))
    pd.testing.assert_frame_equal(read_log(tmp_path / "lines.jsonl"), table)


def test_verdicts_of_one_system_have_no_name_of_it(tmp_path: Path) -> None:
    results = [
        one for one in json.loads((LOGS / "promptfoo.json").read_text())["results"]["results"] if one["promptIdx"] == 1
    ]
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, results)))
    table = read_log(tmp_path / "lines.jsonl")
    assert table.columns.tolist() == ["question", "answer", "truth"]
    assert table.groupby("question").size().tolist() == [3, 3]
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, results * 2)))
    with pytest.raises(InputError, match="test 0 and prompt 1 twice"):
        read_log(tmp_path / "lines.jsonl")


NEW = {
    "doc": {"query": "2+2", "choices": ["4"], "gold_index": [0]},
    "model_response": {"text": ["4", "5", "4"], "text_post_processed": None},
}


def details(tmp_path: Path, row: dict[str, Any]) -> pd.DataFrame:
    path = tmp_path / "details.parquet"
    pd.DataFrame([row, row]).to_parquet(path)
    return read_log(path)


@needs_parquet
@pytest.mark.parametrize("row", [{"predictions": ["4", "5", "4"], "gold": ["4"]}, NEW], ids=["old", "new"])
def test_lighteval_details(row: dict[str, Any], tmp_path: Path) -> None:
    table = details(tmp_path, row)
    assert table.answer.tolist() == ["4", "5", "4"] * 2
    assert table.question.tolist() == [0, 0, 0, 1, 1, 1]
    assert table.truth.unique().tolist() == ["4"]


@needs_parquet
def test_lighteval_details_with_several_accepted_answers(tmp_path: Path) -> None:
    row = {
        "doc": {"choices": ["4", "5", "four"], "gold_index": [0, 2]},
        "model_response": {"text": ["It is 4.", "?"], "text_post_processed": ["4", ""]},
    }
    table = details(tmp_path, row)
    assert table.answer.tolist() == ["4", None] * 2
    assert table.truth.tolist() == [frozenset({"4", "four"})] * 4


@needs_parquet
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"predictions": "45", "gold": ["4"]}, "predictions in it is '45', and must be list"),
        ({"predictions": ["4"], "gold": "45"}, "gold in it is '45', and must be list"),
        (NEW | {"doc": {"choices": "45", "gold_index": 0}}, "choices in it is '45', and must be list"),
        (NEW | {"doc": {"choices": ["4"], "gold_index": 1}}, "gold_index in it is no place among its 1 choices"),
        (NEW | {"doc": {"choices": ["4"], "gold_index": -1}}, "gold_index in it is no place"),
        (NEW | {"model_response": {"text": "45"}}, "text in it is '45', and must be list"),
        (NEW | {"model_response": {"text": ["4", "5"], "text_post_processed": "45"}}, "text_post_processed in it is"),
        (NEW | {"model_response": {"text": ["4"], "text_post_processed": ["4", "5"]}}, "1 texts, but 2 after"),
        ({"predictions": [[-1.5, 0.5]], "gold": ["4"]}, r"an answer in it is \[-1.5, 0.5\]"),
    ],
)
def test_details_of_another_shape_are_refused(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        details(tmp_path, row)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.txt", "x", "unknown form"),
        ("log.json", "{", "cannot be read as such a log"),
        ("log.json", "{}", "holds no samples"),
        ("log.json", '{"samples": []}', "holds no samples"),
        ("log.json", '{"samples": null}', "holds no samples"),
        ("log.json", "[]", "holds no samples"),
        ("log.json", '{"samples": [1]}', "its first record is 1, and no object"),
        ("log.json", '{"samples": [{"a": 1}]}', r"its first record has the fields \['a'\]"),
        ("log.json", '{"samples": [], "samples": []}', "has no name, or that of another: 'samples'"),
        ("log.json", '{"samples": [],}', "JSONDecodeError, Expecting value"),
        ("log.json", '{"samples": [{"a": 1},]}', "cannot be read as such a log"),
        ("log.json", '{"samples": []} {}', "something follows the end"),
        ("log.json", '{"samples": [,]}', "character 13 of 16 is none that JSON has there"),
        ("log.json", '{"samples": [}', "cannot be read as such a log"),
        ("log.json", '{"samples" []}', "character 10 of 14 is none"),
        ("log.json", '{"a": 1 "samples": []}', "character 7 of 22 is none"),
        ("log.json", "[" * 100_000, "RecursionError"),
        ("log.json", '{"samples": ' + "[" * 100_000, "RecursionError"),
        ("log.json", f'{{"a": {"1" * 5000}}}', "ValueError"),
        ("log.jsonl", '{"a": 1}', "cannot be read as such a log"),
        ("log.jsonl", '{"a": 1, "a": 2}', "two fields of one name"),
        ("log.jsonl", "\n\n", "holds no samples"),
        ("log.eval", "no archive", "cannot be read as such a log"),
        ("log.parquet", "no table", "cannot be read as such a log"),
    ],
)  # fmt: skip
def test_other_files_are_refused(name: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_log(tmp_path / name)


@needs_parquet
def test_other_columns_are_named(tmp_path: Path) -> None:
    samples().to_parquet(tmp_path / "log.parquet")
    with pytest.raises(InputError, match="with --question id --answer reply"):
        read_log(tmp_path / "log.parquet")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_encodings(encoding: str, tmp_path: Path) -> None:
    text = (LOGS / "inspect.json").read_text().replace('"answer": "0"', '"answer": "z\u00e9ro \U0001f600"')
    (tmp_path / "log.json").write_text(text, encoding=encoding)
    if encoding == "utf-8-sig":
        table = read_log(tmp_path / "log.json")
        assert table.answer.mask(table.answer == "z\u00e9ro \U0001f600", "0").equals(
            read_log(LOGS / "inspect.json").answer
        )
    else:
        with pytest.raises(InputError, match="cannot be read as such a log"):
            read_log(tmp_path / "log.json")


def packed(path: Path, text: str, **options: Any) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1_epoch_1.json", text, **options)
    return path


def test_archives_that_unpack_to_much_are_refused_before(tmp_path: Path) -> None:
    path = packed(tmp_path / "log.eval", f'{{"id": 1, "epoch": 1, "target": "{" " * UNPACKED}"}}')
    tracemalloc.start()
    with pytest.raises(InputError, match="bytes unpack to"):
        read_log(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


def test_encrypted_archives_are_refused(tmp_path: Path) -> None:
    content = bytearray(packed(tmp_path / "log.eval", "{}").read_bytes())
    for head, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(head) + at] |= 1
    (tmp_path / "log.eval").write_bytes(content)
    with pytest.raises(InputError, match="RuntimeError"):
        read_log(tmp_path / "log.eval")


def test_missing_file_is_named() -> None:
    with pytest.raises(InputError, match=r"no file 'nowhere\.json'"):
        read_log("nowhere.json")


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


def test_one_column_may_have_two_roles(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    samples().to_csv(path, index=False)
    found = run(str(path), "--question", "id", "--answer", "reply", "--truth", "gold", "--groups", "id")
    assert "40 questions of 4 samples each" in found


def test_columns_that_are_called_what_they_are_need_no_options(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv"
    table = samples().set_axis(["question", "answer", "truth"], axis=1)
    table.to_csv(path, index=False)
    assert run(str(path)).strip() == str(ens_plugin.analyze_votes(table)).strip()


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (["id", "reply", "gold"], "--question id --answer reply"),
        (["Question_Text", "model response", "x"], "--question Question_Text --answer model response"),
        (["answer", "prompt_id", "n"], "--question prompt_id --answer answer"),
        (["a", "b", "c"], "--question COL --answer COL"),
        (["question", "b", "c"], "--question question --answer COL"),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_command_proposes_columns(columns: list[str], options: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"samples{ending}"
    table = samples().set_axis(columns, axis=1)
    table.to_csv(path, index=False) if ending == ".csv" else table.to_json(path, orient="records", lines=True)
    result = CliRunner().invoke(cli, ["votes", str(path)])
    assert isinstance(result.exception, InputError)
    assert options in str(result.exception)


def test_refusals_are_80_columns_wide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.jsonl"
    samples().to_json(path, orient="records", lines=True)
    for arguments in ([str(path)], [str(LOGS / "test_logs.py")], ["--help"]):
        with pytest.raises(SystemExit):
            main(["votes", *arguments])
        printed = capsys.readouterr()
        assert max(map(len, (printed.out + printed.err).splitlines())) <= 80


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
