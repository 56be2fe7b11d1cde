"""Tables, models and options as the command line names them, and their analysis."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial, wraps
from lzma import LZMAError
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

import click
import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.members import is_text
from ens_plugin.adapters.registry import find_library
from ens_plugin.adapters.unwrap import inner_ensemble, layers
from ens_plugin.analysis.options import CRITERIA, AnalysisOptions
from ens_plugin.cli.console import only_results_on_stdout, paragraph, quiet_libraries, use_store
from ens_plugin.core.validation import counted
from ens_plugin.errors import DataMismatchError, InputError
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.tracking.models import is_uri, load_model

if TYPE_CHECKING:
    import pandas as pd


Argument = Callable[[Callable[..., None]], Callable[..., None]]
PLACES = ("model", "data", "target", "sample_weight", "groups", "drop", "features", "tracking_uri")
OPTIONS = ("metric", "criterion", "tolerance", "max_size", "random_state", "n_jobs")
PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".ftr")
COMPRESSED = ("", ".gz", ".bz2", ".xz", ".zip", ".zst")
CSV = tuple(f".csv{ending}" for ending in COMPRESSED)
TSV = tuple(f".tsv{ending}" for ending in COMPRESSED)
KINDS = "csv, tsv, parquet or feather"  # in words
MAX_NAMES = 20  # of columns in a message
UNREADABLE = (OSError, ValueError)
NO_PARQUET = "{}: parquet and feather files need PyArrow. Install it with: pip install pyarrow."
DAMAGED = (EOFError, zlib.error, LZMAError, BadZipFile)  # of compressed files, in the libraries' own kinds of error


def read_table(path: str | Path, *, exact: bool = True) -> pd.DataFrame:
    """Read a csv, tsv, parquet or feather file, numbers to the last bit, and return it as a data frame."""
    path = Path(path)
    if os.path.isdir(path):
        raise InputError(
            f"The data file {str(path)!r} is a folder, such as Spark writes. Write the rows to one {KINDS} file, "
            "training rows in the order of training."
        )
    if not os.path.isfile(path):
        raise InputError(f"There is no data file {str(path)!r}. Pass a {KINDS} file.")
    if not path.name.lower().endswith((*PARQUET, *FEATHER, *CSV, *TSV)):
        raise InputError(
            f"The name of the data file {str(path)!r} ends in no format that can be read. Convert the file to {KINDS}."
        )
    try:
        frame = _read(path, exact)
    except ImportError as error:
        raise InputError(NO_PARQUET.format(f"The data file {str(path)!r} cannot be read")) from error
    except (*UNREADABLE, *DAMAGED) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"The data file {str(path)!r} cannot be read: {reason}. Check that it is complete and really "
            f"{_form(path.name.lower())}."
        ) from error
    if frame.empty:
        raise InputError(f"The data file {str(path)!r} has no rows. Pass the rows to analyse the model on.")
    return frame


def read_samples(path: str | Path, names: Mapping[str, str] | None) -> pd.DataFrame:
    """Return columns of a table or of lines of JSON under the names of their roles, texts as they are there.

    Without `names`, columns have the names of their roles.
    """
    # Answers of which some are numbers are texts in a file of texts, and the truth beside them must then be one too.
    import pandas as pd

    from ens_plugin.votes.logs import proposed

    if str(path).lower().endswith(".jsonl"):
        try:
            frame = pd.read_json(path, lines=True, dtype=False)
        except UNREADABLE as error:
            raise InputError(f"The data file {str(path)!r} cannot be read as lines of JSON: {error}.") from error
    else:
        frame = read_table(path)
    if names is None:
        known = ("truth", "weight", "group")
        names = {role: role for role in ("question", "answer", *filter(frame.columns.__contains__, known))}
    missing = [name for name in names.values() if name not in frame.columns]
    if missing:
        there = [str(column) for column in frame.columns]
        raise InputError(
            f"The data file {str(path)!r} has no column {missing[0]!r}, but {_listed(there)}. Name one of these, for "
            f"example: {proposed(there)}."
        )
    if str(path).lower().endswith((*CSV, *TSV)):
        texts = _read_text(Path(path), dtype=str, keep_default_na=False)
        frame = texts.mask(texts == "")
    return pd.DataFrame({role: frame[name] for role, name in names.items()})


def column_texts(path: str | Path, name: str) -> pd.Series[Any] | None:
    """Return a column of a csv or tsv file that :func:`read_table` has read, as the texts that are in the file."""
    path = Path(path)
    if not path.name.lower().endswith((*CSV, *TSV)):
        return None
    frame = _read_text(path, usecols=lambda column: column == name, dtype=str, keep_default_na=False)
    return frame[name] if name in frame.columns else None


def is_read_in_two_ways(path: str | Path) -> bool:
    """Return whether :func:`read_table` may read other numbers with `exact` than without."""
    import pandas as pd

    return Path(path).name.lower().endswith((*CSV, *TSV)) and bool(_exact_floats(pd.__version__))


def _read(path: Path, exact: bool) -> pd.DataFrame:
    import pandas as pd

    name = path.name.lower()
    if name.endswith(PARQUET):
        return pd.read_parquet(path)
    if name.endswith(FEATHER):
        return pd.read_feather(path)
    return _read_text(path, **(_exact_floats(pd.__version__) if exact else {}))


def _read_text(path: Path, **options: Any) -> pd.DataFrame:
    import pandas as pd

    frame: pd.DataFrame = pd.read_csv(path, sep="," if path.name.lower().endswith(CSV) else "\t", **options)
    return frame


def _form(name: str) -> str:
    if name.endswith((*CSV, *TSV)):
        return f"a {'csv' if name.endswith(CSV) else 'tsv'} table with one header line, in UTF-8"
    return "parquet" if name.endswith(PARQUET) else "feather"


def _exact_floats(pandas_version: str) -> dict[str, Any]:
    """Return options by which read_csv keeps every bit: one bit can decide which leaf of a tree a row is in."""
    release = tuple(int(part) for part in pandas_version.split(".")[:2])
    # From 3.1 the default parser is exact and the option is deprecated.
    return {"float_precision": "round_trip"} if release < (3, 1) else {}


class ModelRows(NamedTuple):
    """Features, target, weights and groups of a table, in the form of the arguments of ``analyze``."""

    X: Any
    y: NDArray[Any]
    sample_weight: NDArray[np.float64] | None
    groups: NDArray[Any] | None = None
    names: Sequence[str] = ()  # of the features
    left_out: tuple[str, ...] = ()  # columns that the model was not trained on


def rows_for_model(
    frame: pd.DataFrame,
    model: Any,
    *,
    target: str,
    sample_weight: str | None = None,
    groups: str | None = None,
    drop: Sequence[str] = (),
    features: Sequence[str] = (),
    path: str | None = None,
) -> ModelRows:
    """Return a table as the features that `model` was trained on, the target, the weights and the groups."""
    inner_ensemble(model)
    y = _as_trained(_column(frame, target, "target"), model, path).to_numpy()
    rest = frame.drop(columns=[target])
    weights = None
    if sample_weight is not None:
        weights = _numeric(_column(rest, sample_weight, "sample weight"))
        rest = rest.drop(columns=[sample_weight])
    together = None
    if groups is not None:
        together = _column(rest, groups, "group").to_numpy()
        rest = rest.drop(columns=[groups])
    found = features_for_model(rest, model, drop=drop, features=features, path=path)
    return ModelRows(found.X, y, weights, together, found.names, found.left_out)


class ModelFeatures(NamedTuple):
    """The features of a table, as for :class:`ModelRows`."""

    X: Any
    names: Sequence[str] = ()
    left_out: tuple[str, ...] = ()


def features_for_model(
    frame: pd.DataFrame,
    model: Any,
    *,
    drop: Sequence[str] = (),
    features: Sequence[str] = (),
    path: str | Path | None = None,
) -> ModelFeatures:
    """Return a table without target as the features that `model` was trained on, in its order and as it reads them."""
    # By the names that the model keeps (feature_names_in_, or a booster's own list); columns that it does not know are
    # left out. One that was trained without names gets a plain array, in the order of `features`, or of the file.
    chosen = _chosen(frame, drop, features)
    known = _trained_names(model)
    if known is None:
        return ModelFeatures(_plain_features(chosen, model), [str(name) for name in chosen.columns])
    X, left_out = _named_features(chosen, known)
    if path is not None:
        X = _as_written(X, model, path)
    if inner_ensemble(model) is model:
        # The steps of a pipeline take the columns as they are in the file.
        X = find_library(model).with_categories(model, X)
    return ModelFeatures(X, list(X.columns), left_out)


def left_out_note(columns: Sequence[str]) -> str:
    """Return a sentence on columns that were left out, because the model was not trained on them."""
    are = "column {}, which is" if len(columns) == 1 else "columns {}, which are"
    return f"Note: the model was not trained on the {are.format(_listed(list(columns)))} left out."


def _chosen(frame: pd.DataFrame, drop: Sequence[str], features: Sequence[str]) -> pd.DataFrame:
    """Return the columns of `features`, or else all, without those of `drop`."""
    names = [str(column) for column in frame.columns]
    dropped, wanted = (_split_names(names, given) for given in (drop, features))
    for name in (*dropped, *wanted):
        _column(frame, name, "feature")
    kept = [names.index(name) for name in wanted] if wanted else range(len(names))
    return frame.iloc[:, [place for place in kept if names[place] not in dropped]]


def _split_names(names: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return names of columns, of which several may have been given as one text with commas between them."""
    return [name for text in given for name in ([text] if text in names else text.split(","))]


def _column(frame: pd.DataFrame, name: str, role: str) -> pd.Series[Any]:
    names = [str(column) for column in frame.columns]
    if name not in names:
        close = get_close_matches(name, names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"There is no {role} column {name!r} in the data.{hint} Available: {_listed(names)}.")
    if names.count(name) > 1:
        raise InputError(f"The data has {names.count(name)} columns called {name!r}. Rename all but the {role}.")
    return frame.iloc[:, names.index(name)]


def _as_trained(labels: pd.Series[Any], model: Any, path: str | None) -> pd.Series[Any]:
    """Return labels as texts where the model was trained on these texts."""
    classes = getattr(model, "classes_", None)
    texts = {label for label in classes.tolist() if isinstance(label, str)} if isinstance(classes, np.ndarray) else None
    if not texts or _are_among(labels, texts):
        return labels
    written = None if path is None else column_texts(path, str(labels.name))
    if written is not None and _are_among(written, texts):
        return written
    numbers = labels.map(str) if labels.dtype.kind in "biu" else labels
    return numbers if _are_among(numbers, texts) else labels


def _are_among(labels: pd.Series[Any], texts: set[str]) -> bool:
    return labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels) and set(labels) <= texts


def _as_written(X: pd.DataFrame, model: Any, path: str | Path) -> pd.DataFrame:
    """Return features in which the texts of a csv or tsv file stand that the model was trained on, as texts."""
    # In such a file, the text "NA" and a missing value look the same, as do the text "7" and the number.
    trained = _trained_texts(X, model)
    changed = {}
    for name in X.columns:
        texts = trained.get(name)
        if not (_is_open(X[name]) or (texts and X[name].dtype.kind in "biuf")):
            continue
        written = column_texts(path, name)
        if written is None:
            break
        others = set(written[X[name].isna() & (written != "")]) if _is_open(X[name]) else set(written) - {""}
        if others and texts is None:
            raise InputError(
                f"The column {name!r} of {str(path)!r} has the text {sorted(others)[0]!r}, which may be a text or a "
                "missing value, and nothing in the model shows which of them it was trained on. Leave the cells of "
                "missing values empty and rename the text, or pass a parquet or feather file, in which they differ."
            )
        if others and texts and not others.isdisjoint(texts):
            changed[name] = written.mask((written == "") | (X[name].isna() & ~written.isin(texts)))
    return X.assign(**changed)


def _is_open(column: pd.Series[Any]) -> bool:
    """Return whether a column is one of texts, of which some were read as missing."""
    return bool(is_text(column) and column.isna().any())


def _trained_texts(X: pd.DataFrame, model: Any) -> dict[str, set[str]]:
    """Return the texts that each column had in training, of the columns whose categories the model keeps."""
    if inner_ensemble(model) is model:
        table = find_library(model).with_categories(model, X)
        lists = {name: table[name].dtype.categories for name in X.columns if hasattr(table[name].dtype, "categories")}
    else:
        found = (dict(_encoded(layer, list(X.columns))) for layer in layers(model))
        lists = next(filter(None, found), {})
    return {name: {value for value in values if isinstance(value, str)} for name, values in lists.items()}


def _encoded(step: Any, names: list[str]) -> Iterator[tuple[str, Iterable[Any]]]:
    """Yield the columns whose categories the encoders of a fitted pipeline keep, with these; `names` enter the step."""
    # A column that a step drops has none, however it is read.
    if isinstance(step, str) and step == "drop":
        yield from ((name, ()) for name in names)
    stored = getattr(step, "categories_", None)
    if isinstance(stored, (list, tuple)) and len(stored) == len(names):
        yield from zip(names, stored, strict=True)
    for _, inner, *chosen in (*getattr(step, "transformers_", ()), *getattr(step, "transformer_list", ())):
        yield from _encoded(inner, _chosen_names(chosen[0], names) if chosen else names)
    # The first step that keeps categories of as many columns is the one that took these columns.
    for _, inner in getattr(step, "steps", ()):
        found = list(_encoded(inner, names))
        yield from found
        if found:
            return


def _chosen_names(chosen: Any, names: list[str]) -> list[str]:
    """Return the names of the columns that a ColumnTransformer stores as names, positions, a slice or a mask."""
    if isinstance(chosen, str):
        return [chosen]
    if isinstance(chosen, (list, tuple, np.ndarray)) and all(isinstance(own, str) for own in chosen):
        return list(chosen)
    return [str(name) for name in np.atleast_1d(np.asarray(names, dtype=object)[chosen])]


def _numeric(column: pd.Series[Any]) -> NDArray[np.float64]:
    try:
        return column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The sample weight column {column.name!r} is not numeric ({error}). Name a column of numbers."
        ) from error


def _plain_features(features: pd.DataFrame, model: Any) -> NDArray[np.float64]:
    """Return the features for a model that was trained without names."""
    n_wanted = find_library(model).n_features(model)
    if n_wanted not in (None, features.shape[1]):
        raise DataMismatchError(
            f"The model was trained on {counted(n_wanted or 0, 'feature')} without names, and the data has "
            f"{features.shape[1]} to choose from: {_listed(list(features.columns))}. Leave the others out with "
            "--drop, or name the features in training order with --features."
        )
    texts = [name for name, kind in features.dtypes.items() if kind.kind not in "biuf"]
    if texts:
        raise InputError(
            f"The model was trained on plain arrays, and these columns are not numbers: {_listed(texts)}. "
            "Encode them as they were for training, or leave them out with --drop."
        )
    return features.to_numpy(dtype=np.float64, na_value=np.nan)


def _trained_names(model: Any) -> list[str] | None:
    ensemble = inner_ensemble(model)
    names = find_library(ensemble).feature_names(ensemble)
    found = getattr(model, "feature_names_in_", None)
    if model is ensemble:
        return names
    if found is None:
        return None
    # A wrapper has the names of its ensemble, also those that the library generated.
    is_repeated = np.array_equal(found, getattr(ensemble, "feature_names_in_", ()))
    return names if is_repeated else [str(name) for name in found]


def _named_features(features: pd.DataFrame, known: list[str]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the columns that the model was trained on, in its order, and the names of the others."""
    names = [str(name) for name in features.columns]
    features = features.set_axis(names, axis="columns")
    wanted = _file_names(names, known)
    missing = [name for name in wanted if name not in names]
    others = tuple(name for name in names if name not in wanted)
    if missing:
        found = f"missing: {_listed(missing)}" + (f"; not in the model: {_listed(list(others))}" if others else "")
        raise DataMismatchError(
            f"The columns are not the {counted(len(known), 'feature')} the model was trained on ({found}). "
            "Pass a file with these features."
        )
    doubled = [name for name in wanted if names.count(name) > 1]
    doubled += [name for name in others if name.replace(" ", "_") in wanted]
    if doubled:
        raise DataMismatchError(
            f"The data has more than one column for the feature {doubled[0]!r}. Leave out all but one with --drop."
        )
    return features[wanted], others


def _file_names(names: list[str], known: list[str]) -> list[str]:
    """Return the model's feature names as the file spells them: LightGBM replaces blanks by underscores."""
    spelled = {name.replace(" ", "_"): name for name in names}
    return [name if name in names else spelled.get(name, name) for name in known]


def _listed(names: list[Any]) -> str:
    shown = ", ".join(str(name) for name in names[:MAX_NAMES]) or "none"
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES} more"


@dataclass(frozen=True)
class AnalysisRequest:
    """Arguments common to the commands that analyse a model; see ``ens-plugin analyze --help``."""

    # The columns of the target, the weights, the groups and `drop` are no features; all others are if `features` is
    # empty. `options` are without the weights and the groups, which are in the file, and without other rows.

    model: str
    data: str
    target: str
    sample_weight: str | None
    groups: str | None
    drop: tuple[str, ...]
    features: tuple[str, ...]
    tracking_uri: str | None
    options: AnalysisOptions
    unlabelled: str | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """The arguments of :func:`ens_plugin.cli.rows_for_model` that name columns."""
        return {name: getattr(self, name) for name in ("target", "sample_weight", "groups", "drop", "features")}


max_size_option = click.option(
    "--max-size",
    type=int,
    default=AnalysisOptions.max_size,
    show_default=True,
    help="Largest ensemble size considered.",
)


def _in_units(unit: float) -> Callable[[click.Context, click.Parameter, float | None], float | None]:
    def scaled(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
        if value is not None and not 0.0 < value * unit < math.inf:
            raise click.BadParameter(f"{value:g} is no finite number above 0.", param=parameter)
        return None if value is None else value * unit

    return scaled


BUDGET = (
    click.option(
        "--max-megabytes",
        "max_bytes",
        type=float,
        callback=_in_units(1e6),
        help="Most megabytes, of 1 000 000 bytes, of the pickled model.",
    ),
    click.option(
        "--max-latency-ms",
        "max_latency",
        type=float,
        callback=_in_units(1e-3),
        help="Most milliseconds for a request of one row, measured here: the median.",
    ),
)
FEATURES = (
    click.option(
        "--drop",
        multiple=True,
        metavar="COL",
        help="Columns that are no features: COL,COL or the option several times.",
    ),
    click.option(
        "--features",
        multiple=True,
        metavar="COL",
        help="The columns that are features, in training order: COL,COL or the option several times.",
    ),
)
MODEL_AND_ROWS = (
    click.argument("model"),
    click.option("--data", required=True, metavar="FILE", help=f"File with the rows: {KINDS}."),
    click.option("--target", required=True, metavar="COL", help="Column with the true labels or values."),
)
COLUMNS = (
    click.option("--sample-weight", metavar="COL", help="Column with the weights of the rows."),
    click.option(
        "--groups",
        metavar="COL",
        help="Column with the group of each row: a patient, a machine. It is not a feature.",
    ),
    *FEATURES,
)
MEANS = (
    click.option("--n-jobs", type=int, help="Threads to use; -1 for all. Never changes the result."),
    click.option("--tracking-uri", metavar="URI", help="MLflow tracking store; as configured for MLflow by default."),
)
ARGUMENTS = (
    *MODEL_AND_ROWS,
    click.option(
        "--holdout",
        is_flag=True,
        help="The rows were not used for training. Without this they are the exact training rows, in order.",
    ),
    click.option(
        "--unlabelled",
        metavar="FILE",
        help="File with other rows, without labels, that the model was not trained on: the agreement of labels, and "
        "the size by it, are then theirs.",
    ),
    click.option(
        "--metric",
        metavar="NAME",
        help="Name of a scorer of scikit-learn, such as roc_auc, average_precision, neg_log_loss or r2, that curve and "
        "recommended size are of. By default the 0-1 error, or the mean squared error.",
    ),
    click.option(
        "--positive-label",
        metavar="LABEL",
        help="The positive one of two labels, for a --metric that is about it, such as f1 or average_precision. "
        "By default 1, as in scikit-learn, or the rarer label where neither is 1.",
    ),
    click.option(
        "--criterion",
        type=click.Choice(CRITERIA),
        default=AnalysisOptions.criterion,
        show_default=True,
        help="In which respect the recommended size has to be enough: the agreement of labels, the error, the Brier "
        "score of probabilities, or --metric. auto: the metric, if one is given; else error and probabilities both, "
        "and the error for values.",
    ),
    click.option(
        "--tolerance",
        type=float,
        default=AnalysisOptions.tolerance,
        help="What may be lost against infinitely many members: of an error or a Brier score a share of theirs, of an "
        "agreement the share of other labels (by default 0.01), of a metric the difference for scores with a largest "
        "value (by default 1 % of what it has above chance), else a share (by default 0.01). By default of the "
        "accuracy the largest of 2 % of the error, 0.2 points and 0.3 standard errors; of values 1 %.",
    ),
    max_size_option,
    *COLUMNS,
    click.option(
        "--random-state",
        type=int,
        default=AnalysisOptions.random_state,
        show_default=True,
        help="Seed of the resampling.",
    ),
    *MEANS,
)


def analysis_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the shared arguments, which are passed to `command` as one AnalysisRequest."""

    @wraps(command)
    def with_request(holdout: bool, unlabelled: str | None, positive_label: str | None, **values: Any) -> None:
        chosen = {name: values.pop(name) for name in OPTIONS}
        if positive_label is not None:
            if chosen["metric"] is None:
                raise click.UsageError("--positive-label is the label that a metric is about. Add --metric.")
            from ens_plugin.analysis.arguments import metric_of_label

            chosen["metric"] = metric_of_label(chosen["metric"], positive_label)
        options = AnalysisOptions(data="holdout" if holdout else "oob", **chosen)
        command(request=replace(_request(values, options), unlabelled=unlabelled), **values)

    return _with_arguments(with_request, ARGUMENTS)


def _request(values: dict[str, Any], options: AnalysisOptions) -> AnalysisRequest:
    """Return a request from the values of the arguments, which are taken out of `values`."""
    return AnalysisRequest(options=options, **{name: values.pop(name) for name in PLACES})


def _with_arguments(command: Callable[..., None], arguments: Sequence[Argument]) -> Callable[..., None]:
    for argument in reversed(arguments):
        command = argument(command)
    return command


feature_arguments = partial(_with_arguments, arguments=FEATURES)
budget_arguments = partial(_with_arguments, arguments=BUDGET)
means_arguments = partial(_with_arguments, arguments=MEANS)


class Analysis(NamedTuple):
    """A model, the rows it was analysed on, the options with their weights and groups, and the report."""

    model: Any
    rows: ModelRows
    options: AnalysisOptions
    report: EnsembleReport


def analysis_of(request: AnalysisRequest) -> Analysis:
    """Load a model, read its rows, and return the analysis."""
    from ens_plugin.analysis.analyze import run_analysis
    from ens_plugin.analysis.evidence import progress_bar

    with only_results_on_stdout():
        model, rows = model_and_rows(request)
        others = None if request.unlabelled is None else _rows_without_labels(request, request.unlabelled, model)
        options = replace(request.options, sample_weight=rows.sample_weight, groups=rows.groups, unlabelled=others)
        report = run_analysis(model, rows.X, rows.y, options, progress=progress_bar)
    return Analysis(model, rows, options, report)


def _rows_without_labels(request: AnalysisRequest, path: str, model: Any) -> Any:
    """Return the features of a file; columns of the other file that are none need not be in it."""
    frame = read_table(path)
    names = [str(column) for column in frame.columns]
    known = [request.target, request.sample_weight, request.groups]
    left_out = [*known, *_split_names(names, request.drop)]
    dropped = [name for name in left_out if name in names]
    return features_for_model(frame, model, drop=dropped, features=request.features, path=path).X


def model_and_rows(request: AnalysisRequest) -> tuple[Any, ModelRows]:
    """Return the model of a request, loaded, and its rows."""
    frame = read_table(request.data)
    model = load_named(request.model, request.tracking_uri)
    rows = rows_for_model(frame, model, **request.columns, path=request.data)
    if rows.left_out:
        paragraph(left_out_note(rows.left_out))
    return model, rows


def load_named(model: str, tracking_uri: str | None) -> Any:
    """Load and return the model of a file or URI."""
    if not is_uri(model):
        return load_model(model)
    with quiet_libraries():
        use_store(tracking_uri)
        return load_model(model)
