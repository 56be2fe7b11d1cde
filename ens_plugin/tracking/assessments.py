"""Assessments that MLflow keeps with the traces of runs, such as the verdicts of a judge, as a table of votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from ens_plugin.core.validation import shown
from ens_plugin.errors import InputError
from ens_plugin.tracking.log import reached_store
from ens_plugin.votes.logs import Row, as_table
from ens_plugin.votes.verdicts import VERDICTS

if TYPE_CHECKING:
    from mlflow.entities import Trace

SOURCE_RUN = "mlflow.assessment.sourceRunId"


def read_assessments(run_ids: str | Sequence[str], name: str | None = None) -> pd.DataFrame:
    """Return how often each case was assessed, and how, in one run of MLflow or in several of the same evaluation.

    Parameters
    ----------
    run_ids : str or sequence of str
        Runs such as ``mlflow.genai.evaluate`` makes.  Their cases are the inputs of their traces: traces with equal
        inputs are of one case, and each feedback on any of them is a vote.
    name : str or None
        The judge's; None reads the feedback of all, of which each is a system of its own.

    Returns
    -------
    DataFrame
        Columns `question`, `answer` and `truth`, as :func:`ens_plugin.analyze_votes` takes them, and `system` and
        `case`, which make up the question, where there are several judges.  Of words such as yes and no, or pass and
        fail, the answer is True or False; other values stay as they are, and it is None where the judge failed.

    Raises
    ------
    InputError
        If the runs have no such feedback.
    TrackingError
        If the store of MLflow cannot be reached.

    Examples
    --------
    >>> from ens_plugin.tracking import read_assessments
    >>> from ens_plugin.votes import analyze_verdicts
    >>> verdicts = read_assessments(["2f1c…", "8d40…", "b1a7…"], "correctness")  # doctest: +SKIP
    >>> print(analyze_verdicts(verdicts))  # doctest: +SKIP
    """
    wanted = [run_ids] if isinstance(run_ids, str) else list(run_ids)
    with reached_store() as client:
        import mlflow

        runs = [(run_id, client.get_run(run_id).info.experiment_id) for run_id in wanted]
        found = (mlflow.search_traces(run_id=run, locations=[at], return_type="list") for run, at in runs)
        # An evaluation of traces adds these to its own run too.
        traces = {trace.info.trace_id: trace for of_run in found for trace in of_run}
    rows = [row for trace in traces.values() for row in _rows(trace, wanted)]
    judges = sorted({str(judge) for *_, judge in rows})
    table = as_table(row for row in rows if name in (None, row[-1]))
    if table.empty:
        raise InputError(
            f"The {len(traces)} traces of the runs have no feedback{'' if name is None else f' {shown(name, 60)}'}. "
            + (f"Name one of these: {shown(judges, 300)}." if judges else "Pass runs of mlflow.genai.evaluate.")
        )
    return table


def _rows(trace: Trace, run_ids: list[str]) -> Iterator[Row]:
    """Yield the feedback on a trace that is of the runs, or of no run."""
    case = trace.data.request or trace.info.trace_id
    for assessment in trace.info.assessments or ():
        run_id = (assessment.metadata or {}).get(SOURCE_RUN)
        # What was corrected is kept as not valid.
        if assessment.feedback is not None and assessment.valid is not False and run_id in (None, *run_ids):
            yield case, [_verdict(assessment.name, assessment.feedback.value)], None, assessment.name


def _verdict(name: str, value: Any) -> Any:
    if isinstance(value, str):
        return VERDICTS.get(value.strip().lower(), value.strip() or None)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise InputError(f"The feedback {shown(name, 60)} is {shown(value, 60)}. Give a verdict, a text or a number.")
