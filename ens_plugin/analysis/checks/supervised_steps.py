"""A doubt about out-of-bag errors of a pipeline whose earlier steps were fitted to the target of all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from scipy.stats import norm

from ens_plugin.adapters.unwrap.supervised_steps import SupervisedStep, supervised_steps
from ens_plugin.core.validation import counted, printable, with_article
from ens_plugin.errors import DataMismatchError
from ens_plugin.report.result import EnsembleReport

__all__ = [
    "chance_share",
    "cross_fitting_explained",
    "doubts_about_training",
    "doubts_about_transformed_rows",
    "with_supervised_steps",
]

# Of the variance of the target.
MOST_BY_CHANCE = 0.02


def with_supervised_steps(report: EnsembleReport, doubts: Sequence[str]) -> EnsembleReport:
    """Return a report of training rows, and those of its outputs, with more doubts; any other report as it is.

    Parameters
    ----------
    report : EnsembleReport
    doubts : sequence of str
        Of the functions below.
    """
    if report.data != "oob" or not doubts:
        return report
    outputs = {name: with_supervised_steps(part, doubts) for name, part in report.outputs.items()}
    basis = replace(report.basis, doubts=(*report.basis.doubts, *doubts))
    return replace(report, basis=basis, outputs=outputs)


def doubts_about_transformed_rows(model: Any, n_rows: int) -> tuple[str, ...]:
    """Return a doubt for each step that may have learned much about the target of the training rows themselves.

    Such a step has seen the target of a row that is out of bag, so the row is not new to the ensemble.

    Parameters
    ----------
    model : fitted model
        Whose pipelines transform the training rows.
    n_rows : int
        Its training rows.
    """
    return _doubts(supervised_steps(model), n_rows)


def doubts_about_training(model: Any, n_rows: int) -> tuple[str, ...]:
    """Return the doubts about rows as they reached the ensemble in training, where some steps are cross-fitted.

    Parameters are those of :func:`doubts_about_transformed_rows`.
    """
    return _doubts([step for step in supervised_steps(model) if not step.is_cross_fitted], n_rows)


@contextmanager
def cross_fitting_explained(model: Any) -> Iterator[None]:
    """Add to a refusal of the training rows that a cross-fitted step gives them other values than at training."""
    try:
        yield
    except DataMismatchError as error:
        crossed = [step for step in supervised_steps(model) if step.is_cross_fitted]
        if not crossed:
            raise
        raise DataMismatchError(
            f"{error.template} Step {printable(crossed[0].name, 60)!r} of the pipeline, "
            f"{with_article(crossed[0].kind)}, may be the reason: it gives training rows other values in fit_transform "
            "than in transform. Pass the ensemble, model[-1], with the rows that it was trained on: "
            "sklearn.base.clone(model[:-1]).fit_transform(X, y), where the step's random_state is a number."
        ) from error


def chance_share(step: SupervisedStep, n_rows: int) -> float:
    """Return the share of the target's variance that a step explains in its own rows if all columns are noise.

    A column of noise has the squared correlation Z²/n with the target, Z standard normal.  The k of p columns with the
    largest have a sum that is larger by (2 p z φ(z)) / n than that of k columns chosen without the target, where
    z is exceeded by the size of Z with probability k/p.  A projection or an encoder with p parameters has the share
    p/n (least squares).

    Parameters
    ----------
    step : SupervisedStep
    n_rows : int

    Examples
    --------
    >>> round(chance_share(SupervisedStep("select", "SelectKBest", n_parameters=2000, n_chosen=20), 200), 3)
    0.745
    """
    if step.n_chosen is None:
        return min(step.n_parameters / n_rows, 1.0)
    if step.n_chosen in (0, step.n_parameters):
        return 0.0
    z = float(norm.isf(step.n_chosen / step.n_parameters / 2))
    return min(2 * step.n_parameters * z * float(norm.pdf(z)) / n_rows, 1.0)


def _doubts(steps: list[SupervisedStep], n_rows: int) -> tuple[str, ...]:
    return tuple(_doubt(step, n_rows) for step in steps if chance_share(step, n_rows) > MOST_BY_CHANCE)


def _doubt(step: SupervisedStep, n_rows: int) -> str:
    learned = (
        f"It learned {counted(step.n_parameters, 'number')} from it"
        if step.n_chosen is None
        else f"It chose {step.n_chosen} of {counted(step.n_parameters, 'column')}"
    )
    share = 100 * chance_share(step, n_rows)
    return (
        f"Step {printable(step.name, 60)!r} of the pipeline, {with_article(printable(step.kind, 60))}, was fitted to "
        "the target of all rows, so no row is new to the ensemble, and the out-of-bag error may be far too low. "
        f"{learned}: in {counted(n_rows, 'row')}, that explains {share:.2g} % of the target's variance even where all "
        "columns are noise. Fit the step within each member, as BaggingClassifier(make_pipeline(step, tree)) does, or "
        "pass held-out rows."
    )
