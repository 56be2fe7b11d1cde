"""Verdicts of judges that MLflow keeps with traces, of runs that its own evaluation made."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import mlflow
import pytest
from mlflow.entities import AssessmentSource, Feedback

from ens_plugin.errors import InputError, TrackingError
from ens_plugin.tracking import read_assessments
from tests.tracking.fits import new_experiment
from tests.tracking.stores import MLFLOW_WARNINGS, tracking_to

pytestmark = MLFLOW_WARNINGS
CASES = [f'{{"question": "{n} + 0?"}}' for n in range(3)]
SOURCE = AssessmentSource("HUMAN", "someone")


@pytest.fixture(scope="module")
def runs(embedded_uri: str) -> Iterator[list[str]]:
    """Three runs of one evaluation by four judges, in an experiment that is not the active one."""
    turn = count()

    @mlflow.genai.scorer
    def polite(outputs: str) -> bool:
        return next(turn) % 2 == 0

    @mlflow.genai.scorer
    def graded(outputs: str) -> Feedback:
        return Feedback(value="yes" if outputs == "0" else "no")

    @mlflow.genai.scorer
    def points(outputs: str) -> float:
        return 0.5 + int(outputs)

    @mlflow.genai.scorer
    def broken(outputs: str) -> bool:
        raise ValueError("no key")

    data: list[dict[str, Any]] = [{"inputs": {"question": f"{n} + 0?"}, "outputs": str(n)} for n in range(3)]
    with tracking_to(embedded_uri):
        mlflow.set_experiment("tests")
        with new_experiment(mlflow.MlflowClient()):
            made = [mlflow.genai.evaluate(data, scorers=[polite, graded, points, broken]).run_id for _ in range(3)]
        yield made


@pytest.mark.usefixtures("embedded")
def test_a_judge_of_repeated_runs(runs: list[str]) -> None:
    table = read_assessments(runs, "graded")
    assert table.columns.tolist() == ["question", "answer", "truth"]
    assert table.groupby("question").answer.agg(list).to_dict() == {case: [case == CASES[0]] * 3 for case in CASES}
    assert all(isinstance(answer, bool) for answer in table.answer)
    verdicts = read_assessments(runs, "polite")
    assert sorted(verdicts.answer) == [False] * 4 + [True] * 5


@pytest.mark.usefixtures("embedded")
def test_scores_are_numbers_and_a_judge_that_failed_has_no_answer(runs: list[str]) -> None:
    points = read_assessments(runs, "points").groupby("question").answer.agg(list).to_dict()
    assert points == {case: [n + 0.5] * 3 for n, case in enumerate(CASES)}
    assert read_assessments(runs[0], "broken").answer.tolist() == [None] * 3


@pytest.mark.usefixtures("embedded")
def test_judges_are_kept_apart(runs: list[str]) -> None:
    table = read_assessments(runs)
    assert table.groupby("system").size().to_dict() == {"broken": 9, "graded": 9, "points": 9, "polite": 9}
    assert table.question.nunique() == 12
    assert set(table.case) == set(CASES)


@pytest.mark.usefixtures("embedded")
def test_a_second_evaluation_of_the_same_traces_counts_once(runs: list[str]) -> None:
    @mlflow.genai.scorer
    def graded(outputs: str) -> str:
        return " PASS "

    place = mlflow.get_run(runs[0]).info.experiment_id
    traces = mlflow.search_traces(locations=[place], run_id=runs[0])
    again = mlflow.genai.evaluate(traces, scorers=[graded]).run_id
    assert read_assessments(again, "graded").answer.tolist() == [True] * 3
    assert read_assessments([runs[0], again], "graded").groupby("question").size().tolist() == [2] * 3


@pytest.mark.usefixtures("embedded")
def test_several_assessments_of_the_traces_of_one_run(runs: list[str]) -> None:
    place = mlflow.get_run(runs[1]).info.experiment_id
    for trace in mlflow.search_traces(locations=[place], run_id=runs[1], return_type="list"):
        for value in ("fail", "Pass", "unsure", "", "Correct"):
            mlflow.log_feedback(trace_id=trace.info.trace_id, name="people", value=value, source=SOURCE)
    table = read_assessments(runs[1], "people")
    assert table.question.nunique() == 3
    assert sorted(map(str, table.answer)) == ["False"] * 3 + ["None"] * 3 + ["True"] * 6 + ["unsure"] * 3
    mlflow.log_feedback(trace_id=trace.info.trace_id, name="parts", value={"a": 1}, source=SOURCE)
    with pytest.raises(InputError, match="Give a verdict, a text or a number"):
        read_assessments(runs[1], "parts")


@pytest.mark.usefixtures("embedded")
def test_what_is_not_there_is_named(runs: list[str]) -> None:
    with pytest.raises(InputError, match=r"3 traces .* no feedback 'other'\. Name one of these: .*'graded'"):
        read_assessments(runs[2], "other")
    with mlflow.start_run() as run:
        pass
    with pytest.raises(InputError, match=r"0 traces .* no feedback\. Pass runs of mlflow\.genai\.evaluate"):
        read_assessments(run.info.run_id)
    with pytest.raises(TrackingError, match="refused the call"):
        read_assessments("nowhere")
