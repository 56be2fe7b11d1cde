"""The policy of a gate, a decision by it, and what to do about a refusal."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from ens_plugin.analysis.options import Metric, ScorerOfLabel
from ens_plugin.core.validation import as_python, shown
from ens_plugin.errors import InputError
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.result import ZERO_ONE
from ens_plugin.report.text import escaped_markdown, printable, wrapped

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Table = Literal["report", "baseline", "metrics"]
Bound = Literal["max", "min"]
TABLES = ("report", "baseline", "metrics")
BOUNDS: tuple[Bound, ...] = ("max", "min")
# The scalars that a policy may bound, by what they are of.
ACCURACIES = ("accuracy", "accuracy_lower", "accuracy_upper", "asymptotic_accuracy")
ERRORS = ("error", "error_lower", "error_upper", "asymptotic_error")
ROOTS = ("rmse", "rmse_lower", "rmse_upper", "asymptotic_rmse")
MEMBER_SCALARS = ("member_error", "member_variance", "bias")
COSTS = ("megabytes", "latency_ms")
REPORT_SCALARS = (
    *ACCURACIES, *ERRORS, "excess_error", "algorithmic_sd", "n_members", "recommended_size", "size_capped",
    "agreement", *MEMBER_SCALARS, "size_ratio", *COSTS, *ROOTS,
)  # fmt: skip
# Of the curve of a scorer of scikit-learn, which has its name in place of "error".
SCORE_SCALARS = ("{}", "{}_lower", "{}_upper", "asymptotic_{}", "{}_shortfall")
BASELINE_SCALARS = ("error_increase", "error_increase_lower", "error_increase_upper")
NO_WORSE, REQUIRED, METRIC, POSITIVE_LABEL = "no_worse", "required", "metric", "positive_label"
SHARE = (0.0, 1.0)
FILE_LIMIT = 1_000_000  # bytes
NAME_WIDTH, WORDS_WIDTH = 80, 400
EXAMPLE = (
    f"A policy is two lines at least, [report] and accuracy_lower.min = 0.92 for example. Under [report] are bounds on "
    f"{', '.join(REPORT_SCALARS)}; under [baseline] {', '.join((NO_WORSE, *BASELINE_SCALARS))}."
)
AS_DATA = "{'report': {'agreement': {'min': 0.99}}} for example."
NEW_VERSION = "Log the report of the new model, register it and gate that version."
MORE = "Train more members, with ens_plugin.grow for example."
FEWER = "Cut the model to fewer members, with ens_plugin.rightsize for example."
NEITHER = (
    "Some of these bounds need more members, others fewer, so that no size of this model meets all of them. Train a "
    "better model, or change one of the bounds."
)
BETTER = "Train a better model, or analyse more rows where only an end of an interval misses its bound"
REMEDIES: dict[tuple[str, Bound], str] = {
    **dict.fromkeys([("agreement", "min"), ("excess_error", "max"), ("algorithmic_sd", "max")], MORE),
    ("n_members", "min"): MORE,
    **dict.fromkeys([("size_ratio", "max"), ("n_members", "max"), *((name, "max") for name in COSTS)], FEWER),
}


@dataclass(frozen=True)
class Requirement:
    """A bound on a scalar: its largest or smallest allowed value."""

    table: Table
    name: str
    bound: Bound
    threshold: float
    key: str = field(default="", repr=False, compare=False)

    def holds(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return value <= self.threshold if self.bound == "max" else value >= self.threshold


@dataclass(frozen=True)
class Policy:
    """The requirements on a model version, at least one, all of which must hold."""

    requirements: tuple[Requirement, ...]
    baseline_required: bool
    metric: str | None
    digest: str
    positive_label: str | None = None

    @property
    def measured_metric(self) -> Metric | None:
        """The metric of the reports that the gate makes itself."""
        if self.metric is None or self.positive_label is None:
            return self.metric
        return ScorerOfLabel(self.metric, self.positive_label)

    def bounded(self, *tables: Table) -> list[str]:
        """Return the names of the scalars of some tables that the policy bounds."""
        return [requirement.name for requirement in self.requirements if requirement.table in tables]

    def compares(self) -> bool:
        """Return whether the policy has requirements on the difference to a baseline."""
        return bool(self.bounded("baseline"))

    def needs_report(self) -> bool:
        """Return whether the policy has requirements that need an ensemble report."""
        return bool(self.bounded("report", "baseline"))


def read_policy(source: str | Path | Mapping[str, Any]) -> Policy:
    """Read a policy from a file or a mapping, check it, and return it."""
    if not isinstance(source, str | Path | Mapping):
        raise InputError(
            f"{shown(source)} is not a policy. Pass the path of a TOML file, or its content as dictionaries: {AS_DATA}"
        )
    content: Mapping[str, Any]
    if isinstance(source, Mapping):
        content, encoded = source, _canonical(source)
    else:
        encoded = _bytes(Path(source))
        content = _parsed(encoded, Path(source))
    return _policy(content, f"sha256:{hashlib.sha256(encoded).hexdigest()}")


def check_share_bounds(policy: Policy, report: EnsembleReport | None) -> None:
    """Raise InputError for bounds that every model meets, or that none can meet."""
    ranges = {} if report is None else _ranges(report)
    for requirement in policy.requirements:
        low, high = ranges.get((requirement.table, requirement.name), (-math.inf, math.inf))
        worst, best = (high, low) if requirement.bound == "max" else (low, high)
        if requirement.holds(worst) or not requirement.holds(best):
            raise InputError(_without_effect(requirement, low, high, is_met=requirement.holds(worst)))


def _ranges(report: EnsembleReport) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the smallest and the largest value that the scalars of a report can have."""
    curve, basis = report.error_curve, report.error_curve.metric_basis
    found = {"n_members": (1.0, math.inf), "recommended_size": (1.0, math.inf), "size_capped": SHARE}
    found |= dict.fromkeys(("size_ratio", *COSTS), (0.0, math.inf))
    difference = None
    if basis is not None and curve.key in _score_scalars():
        *names, shortfall = (form.format(curve.key) for form in SCORE_SCALARS)
        difference = basis.lowest - basis.highest, basis.highest - basis.lowest
        found |= {**dict.fromkeys(names, (basis.lowest, basis.highest)), shortfall: difference}
    elif curve.metric == ZERO_ONE:
        difference = (-1.0, 1.0)
        found |= {**dict.fromkeys((*ACCURACIES, *ERRORS, "algorithmic_sd"), SHARE), "excess_error": difference}
    if report.is_squared:
        found |= dict.fromkeys((*ERRORS, "algorithmic_sd", *MEMBER_SCALARS, *ROOTS), (0.0, math.inf))
    if report.task == "classification":
        found |= dict.fromkeys(("agreement", *MEMBER_SCALARS), SHARE)
    changes = {} if difference is None else dict.fromkeys(BASELINE_SCALARS, difference)
    tables = {"report": found, "baseline": changes}
    return {(table, name): ends for table, ranges in tables.items() for name, ends in ranges.items()}


def _without_effect(requirement: Requirement, low: float, high: float, *, is_met: bool) -> str:
    number = requirement.threshold
    is_share = (low, high) == SHARE and requirement.name != "size_capped"
    # The percentage that can have been meant, or one as an example.
    percent = number if number <= 100 else 6.0
    hint = f" Write {percent / 100:g} for {percent:g} %." if is_share and number >= high else ""
    span = f"at most {high:g}" if math.isinf(low) else f"from {low:g} to {high:g}"
    return (
        f"The policy has '{requirement.table}.{requirement.name}.{requirement.bound} = {number:g}', but for this model "
        f"that is {'a share, ' if is_share else ''}{f'at least {low:g}' if math.isinf(high) else span}.{hint} "
        f"{'Every model meets this bound' if is_met else 'No model can meet this bound'}: correct or remove it."
    )


def _canonical(content: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(content, sort_keys=True, allow_nan=False, default=_of_python).encode()
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The policy has content that is neither a table, a number, true nor false ({error}). "
            f"A policy is data: {AS_DATA}"
        ) from error


def _of_python(value: object) -> object:
    """Return a number of NumPy as Python's own; raise TypeError for anything else, as json does."""
    if isinstance(value, np.generic):
        return as_python(value)
    raise TypeError(f"an object of type {type(value).__name__}")


def _bytes(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise InputError(f"There is no policy file {shown(str(path))}. {EXAMPLE}")
        with path.open("rb") as file:
            content = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise InputError(
            f"The policy file {shown(str(path))} cannot be read: {error.strerror or error}. Check its permissions."
        ) from error
    if len(content) > FILE_LIMIT:
        raise InputError(
            f"The policy file {str(path)!r} has more than {FILE_LIMIT} bytes, too many for a policy. Pass a policy."
        )
    return content


def _parsed(encoded: bytes, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(encoded.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"The policy file {str(path)!r} is not TOML: {error}. {EXAMPLE}") from error


def _policy(content: Mapping[str, Any], digest: str) -> Policy:
    _check_keys(content, TABLES, "")
    report, baseline, metrics = (_table(content.get(name, {}), name) for name in TABLES)
    required = _switch(baseline.pop(REQUIRED, True), f"baseline.{REQUIRED}")
    metric = _metric(report.pop(METRIC, None))
    positive_label = _positive_label(report.pop(POSITIVE_LABEL, None), metric)
    requirements = (
        *_requirements("report", report, (*REPORT_SCALARS, METRIC, POSITIVE_LABEL)),
        *_baseline_requirements(baseline),
        *_requirements("metrics", metrics, None),
    )
    if not requirements:
        raise InputError(
            "The policy has no requirement, so every model would pass. Add one, 'error_upper.max = 0.1' under "
            "'[report]' for example."
        )
    return Policy(requirements, required, metric, digest, positive_label)


def _baseline_requirements(table: dict[str, Any]) -> Iterator[Requirement]:
    if NO_WORSE in table:
        if not _switch(table.pop(NO_WORSE), f"baseline.{NO_WORSE}"):
            raise InputError("The policy has 'baseline.no_worse = false', which requires nothing. Remove the line.")
        yield Requirement("baseline", "error_increase_lower", "max", 0.0, NO_WORSE)
    yield from _requirements("baseline", table, (*BASELINE_SCALARS, NO_WORSE, REQUIRED))


def _requirements(table: Table, content: Mapping[str, Any], known: tuple[str, ...] | None) -> Iterator[Requirement]:
    if known is not None:
        scores = _score_scalars() if table == "report" else {}
        _check_keys({key: value for key, value in content.items() if key not in scores}, known, f"{table}.")
    for name, bounds in content.items():
        place = f"{table}.{name}"
        found = _bounds(bounds, place)
        if place == "report.size_ratio" and "min" in found:
            raise InputError(
                "The policy has 'report.size_ratio.min', but it takes 'max' only: where a report finds no size "
                "large enough, the ratio itself is not known. Use 'report.agreement.min' or 'report.n_members.min' "
                "instead."
            )
        yield from (Requirement(table, name, bound, found[bound]) for bound in BOUNDS if bound in found)


def scorer_of(name: str) -> str | None:
    """Return the name of the scorer whose reports have a scalar of this name; None for scalars of every report."""
    return _score_scalars().get(name)


def _score_scalars() -> dict[str, str]:
    """Return the names of scalars that only reports on a scorer of scikit-learn have, each with the scorer's name."""
    from sklearn.metrics import get_scorer_names

    return {form.format(name): name for name in get_scorer_names() for form in SCORE_SCALARS}


def _bounds(value: Any, place: str) -> dict[str, float]:
    content = _table(value, place)
    _check_keys(content, BOUNDS, f"{place}.")
    if not content:
        raise InputError(f"The policy has {shown(place)} without a bound. Add 'max' or 'min'.")
    bounds = {bound: _number(number, f"{place}.{bound}") for bound, number in content.items()}
    if bounds.get("min", -math.inf) > bounds.get("max", math.inf):
        raise InputError(f"The policy has {shown(place)} with min above max, which no value can meet. Swap them.")
    return bounds


def _check_keys(content: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for key in content:
        if key not in known:
            close = get_close_matches(str(key)[:80], known, n=1, cutoff=0.0)[0]
            dotted = " Names of metrics with dots go into quotes." if place.startswith("metrics.") else ""
            raise InputError(
                f"The policy has {shown(f'{place}{key}')}, which is no known key; did you mean {close!r}? "
                f"The keys known here are {', '.join(known)}.{dotted}"
            )


def _table(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        _refuse(place, value, "which is not a table. Write 'agreement.min = 0.99' under '[report]', for example.")
    return dict(value)


def _number(value: Any, place: str) -> float:
    value = as_python(value)
    # No int is converted here: one beyond the floats would raise.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        _refuse(place, value, "which is not a finite number. Write 0.05 for 5 %.")
    return float(value)


def _switch(value: Any, place: str) -> bool:
    value = as_python(value)
    if not isinstance(value, bool):
        _refuse(place, value, "which is neither true nor false. Write true or false.")
    return value


def _metric(value: Any) -> str | None:
    from sklearn.metrics import get_scorer_names

    if value is None or (isinstance(value, str) and value in get_scorer_names()):
        return value
    near = get_close_matches(str(value)[:80], get_scorer_names(), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    _refuse("report.metric", value, f'which is no scorer of scikit-learn{hint} Write metric = "roc_auc" for example.')


def _positive_label(value: Any, metric: str | None) -> str | None:
    place = f"report.{POSITIVE_LABEL}"
    if value is None:
        return None
    if not isinstance(value, str | int | float):
        _refuse(place, value, f'which is no label. Write {POSITIVE_LABEL} = "yes" for example.')
    if metric is None:
        example = f'Write {METRIC} = "average_precision" for example, or remove the line.'
        _refuse(place, value, f"without a metric that it is the label of. {example}", comma="")
    return str(value)


def _refuse(place: str, value: object, problem: str, comma: str = ",") -> NoReturn:
    raise InputError(f"The policy has {shown(place)} = {shown(value)}{comma} {problem}")


@dataclass(frozen=True)
class Check:
    """One requirement of a policy, the value found for it, and whether it holds."""

    requirement: Requirement
    value: float
    passed: bool
    subject: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain Python objects."""
        wanted = {name: part for name, part in asdict(self.requirement).items() if name != "key"}
        return {**wanted, "value": self.value, "passed": self.passed}

    @property
    def text(self) -> str:
        """The requirement and the value found, in one line: ``report.error_upper is 0.0604, at most 0.08 allowed``."""
        wanted = self.requirement
        subject = self.subject or f"{printable(f'{wanted.table}.{wanted.name}', NAME_WIDTH)} is"
        plain = f"{wanted.threshold:.15g}"
        threshold = plain if float(plain) == wanted.threshold else repr(wanted.threshold)
        value = threshold if self.value == wanted.threshold else apart(self.value, wanted.threshold)[0]
        bound = f"at most {threshold} allowed" if wanted.bound == "max" else f"at least {threshold} required"
        return f"{subject} {value}, {bound}"


def apart(value: float, threshold: float) -> tuple[str, str]:
    """Return two numbers as text of four digits, or of the fewest more that keep different numbers different."""
    for digits in (4, 5, 6):
        short = f"{value:.{digits}g}", f"{threshold:.{digits}g}"
        is_plain = digits == 6 or not any("e+" in text for text in short)
        if is_plain and (short[0] != short[1] or value == threshold):
            return short
    return repr(value), repr(threshold)


@dataclass(frozen=True)
class GateDecision:
    """The decision of :func:`ens_plugin.gate` on one version of a registered model.

    Attributes
    ----------
    name, version : str
        The version that was judged.
    verdict : {"pass", "fail"}
    checks : tuple of Check
        One for each requirement of the policy, in its order.
    policy_digest : str
        ``"sha256:"`` and the sum of the policy file.
    time : str
        UTC time of the decision, ISO 8601.
    report : str or None
        URI of the logged report; None where the gate analysed the model itself or needed no report.
    evidence : str
        Description of the rows that the report is on, and of where it was logged.
    model_digest : str
        ``"sha256:"`` and the sum of all files of the model.
    data_digest : str or None
        Digest of the rows that the gate analysed the model on.
    baseline : str or None
        Version that the candidate was compared with.
    comparison : str or None
        Description of the comparison, or of the reason for none.
    promoted : str or None
        Alias that was to be moved and now points at the version.
    promoted_from : str or None
        Version that the alias pointed at before.
    notes : tuple of str
        Sentences for who reads a fail: what to do, and where the alias stays.  They are in the text and in Markdown,
        and not in the JSON.
    warnings : tuple of str
        A comparison that the policy requires and that was not made, in a sentence below the headline; in the JSON it is
        in `comparison`.

    Examples
    --------
    >>> import ens_plugin
    >>> decision = ens_plugin.gate("models:/churn/7", "policy.toml")  # doctest: +SKIP
    >>> decision = ens_plugin.GateDecision(
    ...     name="churn", version="7", verdict="pass", checks=(), policy_digest="sha256:4c0c3b7e", report=None,
    ...     time="2026-01-01T00:00:00+00:00", evidence="569 rows held out", model_digest="sha256:9f86d081",
    ...     data_digest=None, baseline=None, comparison=None)
    >>> print(decision)
    PASS: version 7 of churn meets the policy sha256:4c0c3b7e
    Evidence: 569 rows held out.
    """

    name: str
    version: str
    verdict: Literal["pass", "fail"]
    checks: tuple[Check, ...]
    policy_digest: str
    time: str
    report: str | None
    evidence: str
    model_digest: str
    data_digest: str | None
    baseline: str | None
    comparison: str | None
    promoted: str | None = None
    promoted_from: str | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.summary()

    @property
    def passed(self) -> bool:
        """Whether the version may be promoted."""
        return self.verdict == "pass"

    @property
    def tag(self) -> str:
        """What the tag ``ens.gate`` holds: the verdict, and the version and the sum of the files that it is of.

        MLflow copies tags to copies of a version, and lets anyone register a version with tags.  A tag of another
        version or of other files is no verdict.
        """
        return f"{self.verdict}, version {self.version} of {printable(self.name, NAME_WIDTH)}, {self.model_digest}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """One line for each check, failed ones first."""
        return tuple(
            f"{'ok' if check.passed else 'FAILED'}: {check.text}"
            for check in sorted(self.checks, key=lambda check: check.passed)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain Python objects."""
        content = {**asdict(self), "checks": [check.to_dict() for check in self.checks]}
        return {name: value for name, value in content.items() if name not in ("notes", "warnings")}

    def to_json(self) -> str:
        """Return the decision as JSON text."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def summary(self) -> str:
        """Return the decision as plain text, without control characters."""
        lines = [f"{self.verdict.upper()}: {self._headline()}"]
        for warning in self.warnings:
            lines.extend(wrapped(f"Warning: {printable(warning, WORDS_WIDTH)}", later="  "))
        for reason in self.reasons:
            lines.extend(wrapped(reason, indent="  ", later="  "))
        for sentence in self._origin():
            lines.extend(wrapped(sentence, later="    "))
        return "\n".join(lines)

    def to_markdown(self) -> str:
        """Return the decision in Markdown, with all names escaped."""
        lines = [*(f"Warning: {warning}" for warning in self.warnings), *self.reasons, *self._origin()]
        return "\n".join(
            [f"**{self.verdict.upper()}: {escaped_markdown(self._headline(), WORDS_WIDTH)}**", "",
             *(f"- {escaped_markdown(line, WORDS_WIDTH)}" for line in lines)]
        )  # fmt: skip

    def _headline(self) -> str:
        meets = "meets" if self.passed else "does not meet"
        return (
            f"version {self.version} of {printable(self.name, NAME_WIDTH)} {meets} the policy {self.policy_digest[:19]}"
        )

    def _move(self) -> str:
        if self.promoted_from == self.version:
            return f"stays at version {self.version}"
        if self.promoted_from is None:
            return f"points at version {self.version}"
        return f"was moved from version {self.promoted_from} to version {self.version}"

    def _origin(self) -> list[str]:
        lines = [f"Evidence: {printable(self.evidence, WORDS_WIDTH)}."]
        if self.comparison is not None:
            lines.append(f"Baseline: {printable(self.comparison, WORDS_WIDTH)}.")
        if self.promoted is not None:
            lines.append(f"Alias {self.promoted!r} {self._move()}.")
        return [*lines, *(printable(note, WORDS_WIDTH) for note in self.notes)]


def report_remedies(failed: Sequence[Requirement], scalars: Mapping[str, float]) -> list[str]:
    """Return what to do where scalars of the report fail their bounds: each remedy once, and none against another."""
    excess = scalars.get("excess_error")
    # What no number of members reaches, none has to be trained for.
    gain = f": infinitely many members would lower the error by no more than {max(excess or 0.0, 0.0):.2g}"
    better = f"{BETTER}{'' if excess is None else gain}."
    found = list(dict.fromkeys(REMEDIES.get((each.name, each.bound), better) for each in failed))
    if MORE in found and FEWER in found:
        return [*(remedy for remedy in found if remedy not in (MORE, FEWER)), NEITHER]
    return found
