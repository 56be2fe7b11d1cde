"""The function spark.analyze, which returns the report of a trained ensemble on a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from ens_plugin import errors
from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import VerifiesRows, distributed_bags
from ens_plugin.adapters.library import NativeInterface
from ens_plugin.adapters.registry import find_adapter, find_library
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble
from ens_plugin.analysis.arguments import refuse_weighted_metric, resolve_options
from ens_plugin.analysis.build_report import build_report
from ens_plugin.analysis.label_errors import with_label_errors
from ens_plugin.analysis.options import AnalysisOptions, Metric, metric_of_label
from ens_plugin.analysis.row_blocks import sample_limit, sampling_seed, tally_block
from ens_plugin.analysis.rows.hashes import hash_rows
from ens_plugin.analysis.rows.repeats import RepeatedRows, find_repeats
from ens_plugin.analysis.rows.stored_outputs import compare_with_stored
from ens_plugin.analysis.rows.targets import refuse_own_loss, refuse_own_weights
from ens_plugin.core.tallies.bags import BagProof
from ens_plugin.core.validation import counted
from ens_plugin.errors import BagError, DataMismatchError, InputError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.spark.assembly import in_content_order, in_row_order, refuse_alike_rows, tallied_rows
from ens_plugin.spark.columns import (
    Columns,
    RowCounts,
    as_names,
    check_columns,
    check_frame,
    check_positions,
    count_rows,
    selected,
    target_labels,
)
from ens_plugin.spark.groupings import choose_grouping
from ens_plugin.spark.jobs import all_rows, gather, pickled_model
from ens_plugin.spark.models import behind_stages
from ens_plugin.spark.partition import Plan, codes_or_values
from ens_plugin.spark.parts import Part, Problems
from ens_plugin.spark.repeats import copies_finding
from ens_plugin.spark.session import require_spark

__all__ = ["analyze", "analyze_frame"]

# With this bound on keys, all but one of 10^9 analyses have enough rows for the sample.
SPARE_DEVIATIONS = 6.0
LARGEST_KEY = 2**64 - 1


def analyze(
    model: Any,
    df: Any,
    *,
    label_col: str,
    feature_cols: Sequence[str] | str | None = None,
    row_id_col: str | None = None,
    weight_col: str | None = None,
    data: Literal["oob", "holdout"] = "holdout",
    metric: Metric | None = AnalysisOptions.metric,
    positive_label: object = None,
    criterion: str = AnalysisOptions.criterion,
    confidence: float | None = AnalysisOptions.confidence,
    tolerance: float | None = AnalysisOptions.tolerance,
    max_size: int = AnalysisOptions.max_size,
    interval_level: float = AnalysisOptions.interval_level,
    sizes: ArrayLike | None = AnalysisOptions.sizes,
    estimator: str = AnalysisOptions.estimator,
    random_state: int | None = AnalysisOptions.random_state,
) -> EnsembleReport:
    """Return the report of :func:`ens_plugin.analyze` on the rows of a Spark DataFrame.

    The model is sent to every executor once.  Executors return sums and groups of rows, and the votes on at most
    20 000 sampled rows, whatever the number of rows.  The argument `groups` of :func:`ens_plugin.analyze` is not
    supported here: every executor would need the group of every row.  Copies among training rows are found in a sample
    of the rows' hashes.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`; besides, a PipelineModel of Spark that ends with a forest, and models of
        ``xgboost.spark``.
    df : pyspark.sql.DataFrame
        The rows.  It is read twice: its labels and weights first, then everything.
    label_col : str
        Column with the true labels or values.
    feature_cols : sequence of str, or str, optional
        Columns that the model was trained on, in the same order; or one column of arrays or vectors.  A model of Spark
        ML or ``xgboost.spark`` has the names of its columns, so they may be left out.
    row_id_col : str, optional
        Column with each row's position, 0, 1, 2, ..., in the training data.  For held-out rows any distinct
        numbers suffice; with positions, the sampled rows are those that :func:`ens_plugin.analyze` samples.
    weight_col : str, optional
        Column with the weights of the rows in the evaluation.
    data : {"holdout", "oob"}, default="holdout"
        With ``"oob"``, the DataFrame holds exactly the training rows, in any order, and `row_id_col` is needed.
    metric, criterion, confidence, tolerance, max_size, interval_level, sizes, estimator, random_state
        As for :func:`ens_plugin.analyze`; a metric is computed on the sampled rows, at most 20 000, by the driver, and
        the report has their number.
    positive_label : label, optional
        The label of two that a scorer is about; needed where none of them is 1.

    Returns
    -------
    EnsembleReport

    Raises
    ------
    ClusterError
        If PySpark or Java is missing, or the job fails.
    EnsPluginError
        As :func:`ens_plugin.analyze`; the message names the column and counts its rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin import spark
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X[::2], y[::2])
    >>> from pyspark.sql import SparkSession  # doctest: +SKIP
    >>> session = SparkSession.builder.getOrCreate()  # doctest: +SKIP
    >>> df = session.createDataFrame(X[1::2].assign(label=y[1::2]))  # doctest: +SKIP
    >>> report = spark.analyze(forest, df, label_col="label", feature_cols=[*X.columns])  # doctest: +SKIP
    """
    options = AnalysisOptions(
        data=data,
        metric=metric_of_label(metric, positive_label),
        criterion=criterion,
        confidence=confidence,
        tolerance=tolerance,
        max_size=max_size,
        interval_level=interval_level,
        sizes=sizes,
        estimator=estimator,
        random_state=random_state,
    )
    return analyze_frame(
        model, df, options, label_col=label_col, feature_cols=feature_cols, row_id_col=row_id_col, weight_col=weight_col
    )


def analyze_frame(
    model: Any,
    df: Any,
    options: AnalysisOptions,
    *,
    label_col: str,
    feature_cols: Sequence[str] | str | None,
    row_id_col: str | None,
    weight_col: str | None,
) -> EnsembleReport:
    """Return the report of :func:`analyze` from its options; `sample_weight`, `groups` and `n_jobs` are not read.

    Raises
    ------
    EnsPluginError
        As :func:`analyze`.
    """
    require_spark()
    check_frame(df)
    data = options.data
    model, df, feature_cols = behind_stages(model, df, feature_cols, data)
    ensemble = inner_ensemble(model)
    adapter = find_adapter(ensemble)
    refuse_own_weights(adapter, "The analysis of a Spark DataFrame")
    refuse_own_loss(adapter, "The analysis of a Spark DataFrame")
    settings = resolve_options(adapter, options)
    if weight_col is not None:
        refuse_weighted_metric(settings.metric, "weight_col")
    if data == "oob" and row_id_col is None:
        raise InputError(
            "data='oob' needs row_id_col, the column with each row's position 0, 1, 2, ... in the training data, which "
            "decides for which members a row is out of bag. Add it before training, or pass held-out rows with "
            "data='holdout'."
        )
    columns = Columns(label_col, as_names(feature_cols, "feature_cols"), row_id_col, weight_col)
    check_columns(df, columns, adapter, is_wrapped=ensemble is not model)
    content = pickled_model(adapter.portable() if model is ensemble else model, adapter)
    counts = count_rows(df, columns, adapter)
    if data == "oob":
        distributed_bags(adapter, counts.all, 0)
        check_positions(df.sparkSession, counts, str(row_id_col))
    limit = sample_limit(adapter, 0 if adapter.classes is None else int(adapter.classes.size))
    plan = Plan(
        features=columns.features,
        as_frame=_takes_names(model, ensemble) or (ensemble is not model and _has_words(df, columns)),
        grouping=choose_grouping(adapter, counts.all),
        with_path=settings.estimator == "path",
        sample_limit=limit,
        sampling_seed=sampling_seed(np.random.default_rng(settings.random_state)),
        highest_key=_highest_key(counts, limit),
        n_trained=counts.all if data == "oob" else None,
        candidate=0,
    )
    rows = selected(df, columns)
    part, proof = _proved(rows, content, plan, adapter, counts)
    _refuse_repeated_rows(part, plan, row_id_col)
    assert part.kept is not None
    n_repeated, doubts = copies_finding(part.marks, counts.all, lambda: _repeats(rows, plan, adapter, counts))
    if plan.highest_key < LARGEST_KEY:
        refuse_alike_rows(part.kept, row_id_col)
    kept = in_row_order(part.kept)
    if (
        data == "holdout"
        and isinstance(adapter, VerifiesRows)
        and adapter.are_training_outputs(kept.outputs, kept.target)
    ):
        raise DataMismatchError(
            "These are rows that the model was trained on. As held-out rows they would make the error far too low. "
            'Pass data="oob" and row_id_col (on the command line --row-id without --holdout) to use the members '
            "that each row is out of bag for, or pass rows that were not used for training."
        )
    if adapter.classes is not None:
        kept = in_content_order(adapter, kept)
    tallied = replace(tallied_rows(adapter, replace(part, kept=kept), plan.grouping), proof=proof)
    with threadpool_limits(limits=1, user_api="blas"):
        if data == "oob":
            compare_with_stored(adapter, tallied.sample, kept.row)
        report = build_report(
            adapter,
            tallied,
            settings,
            sizes_given=options.sizes is not None,
            sampled_labels=target_labels(kept.target, adapter.classes),
        )
        report = with_label_errors(report, adapter, tallied.sample, tally_block(tallied.sample.block, adapter), None)
    basis = replace(report.basis, n_repeated=n_repeated, doubts=(*report.basis.doubts, *doubts))
    return replace(report, basis=basis)


def _proved(
    rows: Any, content: bytes, plan: Plan, adapter: EnsembleAdapter, counts: RowCounts
) -> tuple[Part, BagProof]:
    """Return the sums over all rows, and the proof, for the first candidate of the bags that is proved."""
    first_error: DataMismatchError | BagError | None = None
    while True:
        part = gather(rows, content, plan, counts)
        _refuse_problems(part.problems, counts)
        if plan.n_trained is None:
            return part, BagProof()
        try:
            return part, distributed_bags(adapter, plan.n_trained, plan.candidate).prove(part.proof)
        except (DataMismatchError, BagError) as error:
            first_error = first_error or error
        plan = replace(plan, candidate=plan.candidate + 1)
        try:
            distributed_bags(adapter, counts.all, plan.candidate)
        except BagError:
            raise first_error from None


def _repeats(df: Any, plan: Plan, adapter: EnsembleAdapter, counts: RowCounts) -> RepeatedRows | None:
    """Return which rows are copies by all rows, as on one machine; None of tables too large for a second look."""
    rows = all_rows(df, plan, counts.all)
    return None if rows is None else find_repeats(hash_rows(None, rows.features), codes_or_values(rows, adapter))


def _refuse_repeated_rows(part: Part, plan: Plan, name: str | None) -> None:
    if name is None or plan.grouping != "rows" or part.groups is None:
        return
    repeated = int((part.groups.rows > 1).sum())
    if repeated:
        raise InputError(
            f"Column {name!r} has {counted(repeated, 'row number')} that several rows share. Give every row a number "
            "of its own."
        )


def _takes_names(model: Any, ensemble: Any) -> bool:
    """Return whether a model was trained with column names, so that its rows must be a DataFrame with them."""
    if getattr(model, "feature_names_in_", None) is not None:
        return True
    library = find_library(ensemble, NativeInterface)
    return library is not None and library.feature_names(ensemble) is not None


def _has_words(df: Any, columns: Columns) -> bool:
    kinds = dict(df.dtypes)
    return any(kinds[name] == "string" for name in columns.features)


def _highest_key(counts: RowCounts, limit: int) -> int:
    """Return the key above which no row is sampled, so that executors keep few rows more than needed."""
    wanted = limit + SPARE_DEVIATIONS * np.sqrt(limit) + 1.0
    if wanted >= counts.weighted:
        return LARGEST_KEY
    return int(wanted / counts.weighted * LARGEST_KEY)


def _refuse_problems(problems: Problems, counts: RowCounts) -> None:
    if problems.bad_values:
        found = ", ".join(
            f"{column!r} in {counted(count, 'row')}" for column, count in sorted(problems.bad_values.items())
        )
        raise InputError(
            f"The model refuses missing or infinite values (null, NaN): {found}, of {counts.all} rows. Leave these "
            "rows out, fill the values in, or train a model that takes missing values."
        )
    if problems.refusals:
        name, message = problems.refusals[0]
        raise getattr(errors, name, InputError)(message)
