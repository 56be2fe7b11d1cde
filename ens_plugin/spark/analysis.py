"""The analysis of an ensemble on a Spark DataFrame."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ens_plugin import errors
from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.registry import find_adapter, find_library
from ens_plugin.adapters.unwrap import inner_ensemble, is_spark_model, java_reason, stages_and_model
from ens_plugin.analysis.analyze import KnownRows, build_report
from ens_plugin.analysis.arguments import (
    metric_of_label,
    refuse_own_loss,
    refuse_own_weights,
    refuse_weighted_metric,
    resolve_options,
)
from ens_plugin.analysis.evidence import sample_limit, sampling_seed
from ens_plugin.analysis.options import AnalysisOptions, Metric
from ens_plugin.analysis.proof import prove_by_rows
from ens_plugin.core.validation import counted
from ens_plugin.errors import DataMismatchError, InputError, UnsupportedModelError
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.spark.columns import (
    Columns,
    RowCounts,
    as_names,
    check_columns,
    check_frame,
    collected,
    collected_table,
    count_rows,
    require_spark,
    selected,
    target_labels,
)
from ens_plugin.spark.partition import (
    MERGED_AT_ONCE,
    Part,
    Plan,
    Problems,
    from_bytes,
    in_content_order,
    in_row_order,
    merge_parts,
    read_partition,
    refuse_alike_rows,
    rows_of,
    tallied_rows,
    to_bytes,
)

FEW_ROWS = 4_000_000  # whose parts the driver merges itself
LARGEST_KEY = int(np.iinfo(np.uint64).max)
LOGGER = logging.getLogger(__name__)
COLUMN = "part"


def pickled_model(model: Any, adapter: EnsembleAdapter) -> bytes:
    """Return a model and the class of its adapter as a pickle that executors load."""
    from pyspark import cloudpickle

    try:
        dumps: Callable[..., bytes] = cloudpickle.dumps
        return dumps((model, type(adapter)), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # pickling runs the model's own code, which may raise anything
        raise UnsupportedModelError(
            f"This {type(model).__name__} cannot be pickled, so it cannot be sent to Spark's executors ({error}). Pass "
            "a model without open files, locks or database connections, or analyse the rows with ens_plugin.analyze."
        ) from error


def gather(rows: Any, content: bytes, plan: Plan, counts: RowCounts) -> Part:
    """Run the analysis on all partitions of a DataFrame, and return the merged sums."""
    context = rows.sparkSession.sparkContext
    model = context.broadcast(content)
    limit = plan.sample_limit

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        yield _batch(read_partition(batches, model.value, plan))

    def merge(batches: Iterator[Any]) -> Iterator[Any]:
        merged = Part()
        for batch in batches:
            for content in batch.column(0):
                merged = merge_parts([merged, from_bytes(content.as_py())], limit)
        yield _batch(merged)

    parts = rows.mapInArrow(read, f"{COLUMN} binary")
    for width in _widths(context.defaultParallelism, counts):
        parts = parts.repartition(width).mapInArrow(merge, f"{COLUMN} binary")
    try:
        contents = [row[COLUMN] for row in collected(parts)]
    finally:
        model.destroy()
    LOGGER.info("%d bytes reached the driver", sum(map(len, contents)))
    return merge_parts([from_bytes(content) for content in contents], limit)


def _batch(part: Part) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({COLUMN: pa.array([to_bytes(part)], type=pa.binary())})


def _widths(parallelism: int, counts: RowCounts) -> list[int]:
    """Return the number of tasks of each level of merging; no level where the driver can merge all parts itself."""
    # After a shuffle the partitions may be others than when they were counted; those of few rows stay small.
    if counts.n_parts <= MERGED_AT_ONCE and counts.all <= FEW_ROWS:
        return []
    widths = [max(parallelism, 1)]
    while widths[-1] > MERGED_AT_ONCE:
        widths.append(-(-widths[-1] // MERGED_AT_ONCE))
    return widths


class SparkInput(NamedTuple):
    """An ensemble without the stages that Spark runs, its rows with these stages applied, and its feature columns."""

    model: Any
    df: Any
    feature_cols: Sequence[str] | str


def behind_stages(model: Any, df: Any, feature_cols: Sequence[str] | str | None) -> SparkInput:
    """Return the ensemble of a Spark model, the rows with the stages before it applied, and its feature columns."""
    if not is_spark_model(model):
        if feature_cols is None:
            raise InputError(
                "feature_cols is missing. Name the columns that the model was trained on, in the same order. Only "
                "models of Spark ML and xgboost.spark have their names."
            )
        return SparkInput(model, df, feature_cols)
    stages, inner = stages_and_model(model)
    ensemble = inner_ensemble(inner)
    columns = _own_columns(inner) if feature_cols is None else feature_cols
    return SparkInput(ensemble, _transformed(stages, df), columns)


def _transformed(stages: list[Any], df: Any) -> Any:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    for stage in stages:
        try:
            df = stage.transform(df)
        except (PySparkException, Py4JJavaError) as error:
            raise InputError(
                f"Stage {type(stage).__name__} before the ensemble refuses the DataFrame: {java_reason(error)}. "
                "Pass the columns the pipeline was fitted on."
            ) from error
    return df


def _own_columns(model: Any) -> Sequence[str] | str:
    """Return the columns that a model of Spark ML or xgboost.spark is set to read."""
    several = model.hasParam("features_cols") and model.getOrDefault("features_cols")
    return list(several) if several else str(model.getOrDefault("featuresCol"))


def analyze(
    model: Any,
    df: Any,
    *,
    label_col: str,
    feature_cols: Sequence[str] | str | None = None,
    row_id_col: str | None = None,
    weight_col: str | None = None,
    metric: Metric | None = AnalysisOptions.metric,
    positive_label: object = None,
    criterion: str = AnalysisOptions.criterion,
    tolerance: float | None = AnalysisOptions.tolerance,
    max_size: int = AnalysisOptions.max_size,
    interval_level: float = AnalysisOptions.interval_level,
    random_state: int | None = AnalysisOptions.random_state,
) -> EnsembleReport:
    """Return the report of :func:`ens_plugin.analyze` on held-out rows of a Spark DataFrame.

    The model is sent to every executor once.  Executors return how many rows are of each kind, and the votes on at most
    20 000 sampled rows, whatever the number of rows.  The argument `groups` of :func:`ens_plugin.analyze` is not
    supported here: every executor would need the group of every row.  Training rows are analysed by
    :func:`ens_plugin.analyze` on the machine that trained the model.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`; besides, a PipelineModel of Spark that ends with a forest, and models of
        ``xgboost.spark``.
    df : pyspark.sql.DataFrame
        Rows that were not used for training.  It is read twice: its labels and weights first, then everything.
    label_col : str
        Column with the true labels or values.
    feature_cols : sequence of str, or str, optional
        Columns that the model was trained on, in the same order; or one column of arrays or vectors.  A model of Spark
        ML or ``xgboost.spark`` has the names of its columns, so they may be left out.
    row_id_col : str, optional
        Column with a number of its own for each row.  With positions, 0, 1, 2, ..., the sampled rows are those that
        :func:`ens_plugin.analyze` samples.
    weight_col : str, optional
        Column with the weights of the rows in the evaluation.
    metric, criterion, tolerance, max_size, interval_level, random_state
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
        data="holdout",
        metric=metric_of_label(metric, positive_label),
        criterion=criterion,
        tolerance=tolerance,
        max_size=max_size,
        interval_level=interval_level,
        random_state=random_state,
    )
    require_spark()
    check_frame(df)
    model, df, feature_cols = behind_stages(model, df, feature_cols)
    ensemble = inner_ensemble(model)
    adapter = find_adapter(ensemble)
    adapter.check_form()
    refuse_own_weights(adapter, "The analysis of a Spark DataFrame")
    refuse_own_loss(adapter, "The analysis of a Spark DataFrame")
    settings = resolve_options(adapter, options)
    if weight_col is not None:
        refuse_weighted_metric(settings.metric, "weight_col")
    columns = Columns(label_col, as_names(feature_cols, "feature_cols"), row_id_col, weight_col)
    check_columns(df, columns, adapter, is_wrapped=ensemble is not model)
    content = pickled_model(adapter.portable() if model is ensemble else model, adapter)
    counts = count_rows(df, columns, adapter)
    kinds = dict(df.dtypes)
    has_words = any(kinds[name] == "string" for name in columns.features)
    limit = sample_limit(adapter, 0 if adapter.classes is None else int(adapter.classes.size))
    plan = Plan(
        features=columns.features,
        as_frame=_takes_names(model, ensemble) or (ensemble is not model and has_words),
        sample_limit=limit,
        sampling_seed=sampling_seed(np.random.default_rng(settings.random_state)),
        highest_key=_highest_key(counts, limit),
    )
    rows = selected(df, columns)
    part = gather(rows, content, plan, counts)
    _refuse_problems(part.problems, counts)
    assert part.kept is not None
    if plan.highest_key < LARGEST_KEY:
        refuse_alike_rows(part.kept, row_id_col)
    elif row_id_col is not None:
        _refuse_repeated_rows(part.kept.row, row_id_col)
    kept = in_row_order(part.kept)
    if adapter.are_training_outputs(kept.outputs, kept.target):
        raise DataMismatchError(
            "These are rows that the model was trained on. As held-out rows they would make the error far too low. "
            "Pass rows that were not used for training, or analyse these by ens_plugin.analyze."
        )
    if adapter.classes is not None:
        kept = in_content_order(adapter, kept)
    tallied = tallied_rows(adapter, replace(part, kept=kept))
    with threadpool_limits(limits=1, user_api="blas"):
        known = KnownRows(sampled_labels=target_labels(kept.target, adapter.classes), has_own_labels=True)
        report = build_report(adapter, tallied, settings, known)
    # Of these rows a stored copy of the model is recognised; the driver lets all members predict them.
    proof = prove_by_rows(model, rows_of(collected_table(rows.limit(512)), plan).features)
    return replace(report, proof=proof)


def _refuse_repeated_rows(row: NDArray[np.int64], name: str) -> None:
    """Refuse rows, all of which are kept, of which some have the same number."""
    repeated = int(np.count_nonzero(np.unique(row, return_counts=True)[1] > 1))
    if repeated:
        raise InputError(
            f"Column {name!r} has {counted(repeated, 'row number')} that several rows share. Give every row a number "
            "of its own."
        )


def _takes_names(model: Any, ensemble: Any) -> bool:
    """Return whether a model was trained with column names, so that its rows must be a DataFrame with them."""
    if getattr(model, "feature_names_in_", None) is not None:
        return True
    return find_library(ensemble).feature_names(ensemble) is not None


def _highest_key(counts: RowCounts, limit: int) -> int:
    """Return the key above which no row is sampled, so that executors keep few rows more than needed."""
    # With this bound on keys, all but one of 10^9 analyses have enough rows for the sample.
    wanted = limit + 6.0 * np.sqrt(limit) + 1.0
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
