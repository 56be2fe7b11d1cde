"""An agreement on rows without labels, logged to an experiment tracker: how a model does on the rows of each day."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from ens_plugin.analysis.unlabelled import Agreement
from ens_plugin.errors import InputError, ends_at_caller
from ens_plugin.report.text import printable
from ens_plugin.tracking.log import DEFAULT_PREFIX, check_prefix, draw_plot, log_to_run, reached_store, target_run
from ens_plugin.tracking.trackers import MLFLOW, ReportParts, check_tracker, kind_of, log_to

DATA_FILE, ROWS_FILE, PAGE_FILE, FIGURE_FILE = "agreement.json", "undecided.csv", "agreement.html", "agreement.png"


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
    The scalars are ``ens.agreement`` and, but for answers, ``ens.overlap``, shares; ``ens.agreement_size``, the trees
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
    check_prefix(prefix)
    check_tracker(tracker)
    if kind_of(tracker) != MLFLOW and run_id is not None:
        raise InputError("run_id is of MLflow. For another tracker, pass the run itself, or leave run_id out.")
    with TemporaryDirectory(prefix="ens_plugin-") as folder, TemporaryDirectory(prefix="ens_plugin-") as drawn:
        parts = _parts(found, Path(folder), prefix)
        if kind_of(tracker) == MLFLOW:
            with reached_store() as client, target_run(run_id) as target:
                now = int(time.time() * 1000)
                log_to_run(client, client.get_run(target), parts, now, f"{prefix}.agreement")
                return target
        figures = draw_plot(found.plot, Path(drawn) / "figures", FIGURE_FILE)
        return log_to(tracker, parts._replace(figures=figures))


def _parts(found: Agreement, directory: Path, prefix: str) -> ReportParts:
    """Write the files and return the parts that are logged."""
    (directory / DATA_FILE).write_text(found.to_json(), encoding="utf-8")
    found.undecided.to_csv(directory / ROWS_FILE)
    found.to_html(directory / PAGE_FILE)
    scalars = {
        "agreement": found.agreement,
        "overlap": found.overlap,
        "agreement_size": found.recommended_size,
        "agreement_rows": found.n_rows,
        "undecided_rows": len(found.undecided),
        "probability_sd": found.probability_sd,
    }
    return ReportParts(
        prefix=prefix,
        scalars={f"{prefix}.{name}": float(value) for name, value in scalars.items() if value is not None},
        curve={f"{prefix}/agreement": _by_size(found)},
        directory=directory,
        figures=None,
        facts={"model": found.model, "n_members": found.n_members, "n_rows": found.n_rows},
        summary=f"```\n{found}\n```",
    )


def _by_size(found: Agreement) -> dict[int, float]:
    """Return the agreement by size up to the present one, whose value MLflow shows as that of the run."""
    values = found.to_frame()["agreement"]
    below = values[values.index < found.n_members]
    return {**dict(zip(below.index.tolist(), below.tolist(), strict=True)), found.n_members: found.agreement}
