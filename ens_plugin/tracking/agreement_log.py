"""Agreements on rows without labels, and votes and verdicts, logged to an experiment tracker as those of a day."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from ens_plugin.analysis.unlabelled import Agreement
from ens_plugin.errors import InputError, ends_at_caller
from ens_plugin.report.text import printable
from ens_plugin.tracking.log import DEFAULT_PREFIX, check_prefix, draw_plot, log_to_run, reached_store, target_run
from ens_plugin.tracking.trackers import MLFLOW, ReportParts, check_tracker, kind_of, log_to
from ens_plugin.votes import VerdictReport, VoteReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class _Content(NamedTuple):
    """What is logged of a result; values that are None are left out."""

    name: str  # of the figure, and of the block in the description of a run
    scalars: Mapping[str, float | None]
    curve: Mapping[str, Mapping[int, float]]
    files: Mapping[str, str]
    facts: Mapping[str, str | int]
    summary: str
    plot: Callable[[Axes], object] | None = None


@ends_at_caller
def log_agreement(
    found: Agreement, *, run_id: str | None = None, prefix: str = DEFAULT_PREFIX, tracker: object = MLFLOW
) -> str:
    """Log an agreement to an experiment tracker: scalars, the agreement by size, its page and undecided rows.

    Parameters
    ----------
    found : Agreement
        From :func:`ens_plugin.agreement`.
    run_id : str, optional
        MLflow run to log to.  By default the active run, or else a new one, which is then ended.
    prefix : str, default="ens"
        Start of the names of metrics and artifacts.
    tracker : str or object, default="mlflow"
        As for :func:`ens_plugin.log_report`.

    Returns
    -------
    str
        The run's id; of TensorBoard and DVCLive the directory, of your own tracker the name of its class.

    Raises
    ------
    InputError
        If `found` is no Agreement, or an argument is none that :func:`ens_plugin.log_report` takes.
    TrackingError
        If the tracking server cannot be reached or refuses a call, or a tracker's library fails.

    Notes
    -----
    The scalars are ``ens.agreement`` and ``ens.overlap``, shares; ``ens.agreement_size``, the trees
    that are wanted, where they can be told; ``ens.undecided_rows``; ``ens.agreement_rows``; and ``ens.probability_sd``,
    where members give probabilities.  The curve is ``ens/agreement``, whose step is the size.  The files are
    ``agreement.html``, ``agreement.json`` and ``undecided.csv``.  Trackers other than MLflow get the curve as a figure
    too.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:300], y[:300])
    >>> today = ens_plugin.agreement(forest, X[300:])
    >>> ens_plugin.log_agreement(today)  # doctest: +SKIP
    """
    if not isinstance(found, Agreement):
        raise InputError(
            f"{printable(repr(found), 120)} is not an agreement. Pass what ens_plugin.agreement returns: "
            "log_agreement(agreement(model, X))."
        )
    return _log(_of_agreement(found), run_id, prefix, tracker)


@ends_at_caller
def log_votes(
    found: VoteReport | VerdictReport,
    *,
    run_id: str | None = None,
    prefix: str = DEFAULT_PREFIX,
    tracker: object = MLFLOW,
) -> str:
    """Log how majorities of answers, or verdicts, depend on their number to an experiment tracker.

    Parameters
    ----------
    found : VoteReport or VerdictReport
        From :func:`ens_plugin.analyze_votes` or :func:`ens_plugin.votes.analyze_verdicts`.
    run_id, prefix, tracker : optional
        As for :func:`log_agreement`.

    Returns
    -------
    str
        As of :func:`log_agreement`.

    Raises
    ------
    InputError
        If `found` is neither, or an argument is none that :func:`ens_plugin.log_report` takes.
    TrackingError
        If the tracking server cannot be reached or refuses a call, or a tracker's library fails.

    Notes
    -----
    Of votes, the scalars are ``ens.maj_at_k`` and ``ens.maj_at_infinity`` where the truth is known,
    ``ens.vote_agreement`` and ``ens.samples_needed``.  Of verdicts they are ``ens.pass_rate``, ``ens.risk_case``,
    ``ens.risk_suite`` and ``ens.risk_winner`` where there are such, and ``ens.repeats_needed``, the largest of all.
    The files are ``votes.json`` and ``questions.csv``.

    Examples
    --------
    >>> import ens_plugin
    >>> from ens_plugin.tracking import log_votes
    >>> found = ens_plugin.analyze_votes([["4", "4", "5"], ["7", "7", "7"]] * 30, ["4", "7"] * 30)
    >>> log_votes(found)  # doctest: +SKIP
    """
    if isinstance(found, VoteReport):
        return _log(_of_votes(found), run_id, prefix, tracker)
    if isinstance(found, VerdictReport):
        return _log(_of_verdicts(found), run_id, prefix, tracker)
    raise InputError(
        f"{printable(repr(found), 120)} is no result of votes. Pass what ens_plugin.analyze_votes or "
        "ens_plugin.votes.analyze_verdicts returns."
    )


def _log(content: _Content, run_id: str | None, prefix: str, tracker: object) -> str:
    """Write the files of a result and log it; trackers other than MLflow get its plot as a figure too."""
    check_prefix(prefix)
    check_tracker(tracker)
    is_mlflow = kind_of(tracker) == MLFLOW
    if not is_mlflow and run_id is not None:
        raise InputError("run_id is of MLflow. For another tracker, pass the run itself, or leave run_id out.")
    with TemporaryDirectory(prefix="ens_plugin-") as folder, TemporaryDirectory(prefix="ens_plugin-") as drawn:
        for name, text in content.files.items():
            Path(folder, name).write_text(text, encoding="utf-8", newline="")
        parts = ReportParts(
            prefix=prefix,
            scalars={f"{prefix}.{name}": float(value) for name, value in content.scalars.items() if value is not None},
            curve={f"{prefix}/{name}": values for name, values in content.curve.items()},
            directory=Path(folder),
            figures=None,
            facts=content.facts,
            summary=content.summary,
        )
        if is_mlflow:
            with reached_store() as client, target_run(run_id) as target:
                now = int(time.time() * 1000)
                log_to_run(client, client.get_run(target), parts, now, f"{prefix}.{content.name}")
                return target
        if content.plot is not None:
            parts = parts._replace(figures=draw_plot(content.plot, Path(drawn) / "figures", f"{content.name}.png"))
        return log_to(tracker, parts)


def _of_votes(found: VoteReport) -> _Content:
    name, sizes = "maj_at_k" if found.has_truth else "agreement", range(1, found.n_samples + 1)
    here, limit = (row for _, row in found.at([found.n_samples, math.inf]).iterrows())
    return _Content(
        "votes",
        {
            "vote_agreement": here.agreement,
            "samples_needed": found.recommended_size,
            "maj_at_k": here.get("maj_at_k"),
            "maj_at_infinity": limit.get("maj_at_k"),
        },
        {name: dict(zip(sizes, found.at(sizes)[name].tolist(), strict=True))},
        {"votes.json": found.to_json(), "questions.csv": found.undecided.to_csv()},
        {"n_questions": found.n_questions, "n_samples": found.n_samples},
        f"```\n{found}\n```",
        found.plot,
    )


def _of_verdicts(found: VerdictReport) -> _Content:
    return _Content(
        "verdicts",
        {
            "pass_rate": found.pass_rate,
            "repeats_needed": max(found.repeats.values()),
            **{f"risk_{name}": risk for name, risk in found.risk_at(found.n_repeats).items()},
        },
        {},
        {"votes.json": found.to_json(), "questions.csv": found.cases.to_csv()},
        {"n_cases": found.n_cases, "n_repeats": found.n_repeats},
        found.to_markdown(),
    )


def _of_agreement(found: Agreement) -> _Content:
    values = found.to_frame()["agreement"]
    below = values[values.index < found.n_members]
    return _Content(
        "agreement",
        {
            "agreement": found.agreement,
            "overlap": found.overlap,
            "agreement_size": found.recommended_size,
            "agreement_rows": found.n_rows,
            "undecided_rows": len(found.undecided),
            "probability_sd": found.probability_sd,
        },
        # MLflow shows the value at the present size as that of the run.
        {
            "agreement": {
                **dict(zip(below.index.tolist(), below.tolist(), strict=True)),
                found.n_members: found.agreement,
            }
        },
        {
            "agreement.html": found.to_html(),
            "agreement.json": found.to_json(),
            "undecided.csv": found.undecided.to_csv(),
        },
        {"model": found.model, "n_members": found.n_members, "n_rows": found.n_rows},
        f"```\n{found}\n```",
        found.plot,
    )
