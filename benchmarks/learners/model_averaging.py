"""Bootstrap model averaging of naive Bayes (2004) against the single model, bagging and boosting.

100 models each, joint sums of them unless noted otherwise; GaussianNB, but MultinomialNB and BernoulliNB where named.
Real data: random splits with the labels' shares kept, the rest for testing. Splits share rows, so that their
differences are not independent: t values and standard errors are Nadeau and Bengio's (2003), with variance (1/J +
n_test/n_train) s² for J splits. It is cautious (at 10 % for training it multiplies the standard error by 30); "plain"
is the t test of the paper, which takes the splits for independent and finds too much. Generated data are drawn anew
each time (300 rows of which 10 or 66 % train, 1000 for testing), and the plain t is right. Marks: ++ better and --
worse than the single model by the corrected t, + and - by the plain one only (95 %, two-sided). Settled: share of 200
test rows whose label 100 models settle (delta = 0.05). Leading model: the share of the largest term in the sum for
the chosen label, median over these rows; 1 % if all counted alike. Bagging is scikit-learn's: it averages
probabilities, as conditional sums do. Majority guesser: T models' share of the second label against the Beta
posterior under a uniform prior. Eq. 11's bound, with the posterior's own spread, is on the distance of their means.
It holds where both means agree (share 0.5), and cannot where the prior pulls them apart (share 0.1), however many
models there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, t
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB

from benchmarks.papers.model_averaging_2004 import bootstrap_share
from benchmarks.shared.forests import Plan, Record, grow_all
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import FORMULAS, load_real
from benchmarks.shared.results import Claim, conclude
from ens_plugin.papers.model_averaging_2004 import BootstrapModelAveragingClassifier, joint_scores, mean_bound

FloatArray = NDArray[np.float64]
Split = tuple[FloatArray, NDArray[Any], FloatArray, NDArray[Any]]

N_MODELS = 100
SHARES = (0.1, 0.66)
GENERATED_ROWS, FRESH_ROWS = 300, 1000
N_BOOLEAN = 10
LOOKED_AT = 200
LEVEL = 0.95

SINGLE, ROWS, PARAMETRIC = "single model", "joint, rows", "joint, parametric"
ROWS_CONDITIONAL, PARAMETRIC_CONDITIONAL = "conditional, rows", "conditional, parametric"
BAGGING, BOOSTING = "bagging", "AdaBoost"
METHODS = (SINGLE, ROWS, PARAMETRIC, ROWS_CONDITIONAL, PARAMETRIC_CONDITIONAL, BAGGING, BOOSTING)
TIMED = (SINGLE, ROWS, PARAMETRIC, BAGGING, BOOSTING)

POSTERIOR_ROWS = (20, 50, 200, 1000)
POSTERIOR_SHARES = (0.5, 0.1)
POSTERIOR_MODELS = 250
DELTA = 0.05


HARM_TRIED = (
    "more models. Joint sums of rows, 24 other sets of 30 rows: ringnorm loses 0.68 ± 0.13 points with 25 models, "
    "0.24 ± 0.08 with 100, 0.19 ± 0.07 with 800; Boolean attributes 0.23 ± 0.09 with 100, 0.08 ± 0.10 with 800. What "
    "is left stays: independent normal features are what the single model assumes, and samples only add noise"
)
TRIED = (
    "the paper reports the reverse. Rows win by the digits, whose pixels are neither normal nor multinomial: samples "
    "drawn from such a model differ less from one another than samples of the data"
)


class Problem(NamedTuple):
    """A base, where its rows come from, and how many rows there are for training and testing together."""

    base: Any
    data: str
    n_rows: int
    generated: bool


PROBLEMS = {
    "iris": Problem(GaussianNB(), "iris", 150, False),
    "wine": Problem(GaussianNB(), "wine", 178, False),
    "breast cancer": Problem(GaussianNB(), "breast cancer", 569, False),
    "digits": Problem(GaussianNB(), "digits", 1797, False),
    "digits, multinomial": Problem(MultinomialNB(), "digits", 1797, False),
    "twonorm": Problem(GaussianNB(), "twonorm", GENERATED_ROWS, True),
    "ringnorm": Problem(GaussianNB(), "ringnorm", GENERATED_ROWS, True),
    "Boolean attributes": Problem(BernoulliNB(), "Boolean attributes", GENERATED_ROWS, True),
}


class Cell(NamedTuple):
    """One problem with one share of the rows for training: results by split."""

    problem: str
    share: float
    n_train: int
    n_test: int
    errors: Mapping[str, FloatArray]
    seconds: Mapping[str, FloatArray]
    settled: FloatArray
    leading: FloatArray

    def gain(self, method: str, over: str = SINGLE) -> FloatArray:
        """Error of `over` less that of `method`, in points, by split."""
        return self.errors[over] - self.errors[method]

    def standard_error(self, differences: FloatArray) -> float:
        """Return Nadeau and Bengio's (2003) for splits of the same rows, the plain one for rows drawn anew."""
        ratio = 0.0 if PROBLEMS[self.problem].generated else self.n_test / self.n_train
        return float(np.sqrt((1.0 / differences.size + ratio) * differences.var(ddof=1)))

    def t_value(self, differences: FloatArray, corrected: bool = True) -> float:
        mean = float(differences.mean())
        se = self.standard_error(differences) if corrected else float(differences.std(ddof=1) / differences.size**0.5)
        return mean / se if se > 0 else 0.0


def boolean_rows(n_rows: int, rng: np.random.Generator, chance: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Two labels like tossed coins, and attributes that depend on nothing else."""
    y = rng.integers(2, size=n_rows)
    return (rng.random((n_rows, chance.shape[1])) < chance[y]).astype(np.float64), y


def split_rows(problem: Problem, n_train: int, seed: int, repetition: int) -> Split:
    """Training rows, their labels, test rows and their labels of one repetition."""
    rng = np.random.default_rng([seed, repetition])
    if problem.data in FORMULAS:
        sample = FORMULAS[problem.data].sample
        return *sample(n_train, rng), *sample(FRESH_ROWS, rng)
    if problem.generated:
        chance = rng.uniform(0.2, 0.8, size=(2, N_BOOLEAN))
        return *boolean_rows(n_train, rng, chance), *boolean_rows(FRESH_ROWS, rng, chance)
    X, y = load_real(problem.data, None, rng)
    first, second, y_first, y_second = train_test_split(
        X, y, train_size=n_train, stratify=y, random_state=int(rng.integers(2**31))
    )
    return first, y_first, second, y_second


def measure(name: str, plan: Plan) -> Record:
    """Errors in percent and seconds (to fit, to predict) of every method on one split; how settled the labels are."""
    problem = PROBLEMS[name]
    assert plan.n_rows is not None
    split = split_rows(problem, plan.n_rows, plan.seed, plan.repetition)
    seed, size = plan.forest_seed(), plan.n_trees
    averaged = partial(BootstrapModelAveragingClassifier, problem.base, n_estimators=size, random_state=seed)
    errors: dict[str, float] = {}
    seconds: dict[str, tuple[float, float]] = {}
    rows = averaged(bootstrap="rows")
    for method, model in (
        (SINGLE, problem.base),
        (ROWS, rows),
        (PARAMETRIC, averaged(bootstrap="parametric")),
        (BAGGING, BaggingClassifier(problem.base, size, random_state=seed)),
        (BOOSTING, AdaBoostClassifier(problem.base, n_estimators=size, random_state=seed)),
    ):
        # Boosting may weigh a label down to nothing, and naive Bayes then takes the logarithm of 0.
        with np.errstate(divide="ignore", invalid="ignore"):
            errors[method], seconds[method] = _timed(model, split)
        conditional = method.replace("joint", "conditional")
        if conditional != method:
            errors[conditional] = _error(model.set_params(combine="conditional"), split)
    rows.set_params(combine="joint")
    return {
        "errors": np.array([errors[method] for method in METHODS]),
        "seconds": np.array([seconds[method] for method in TIMED]),
        "settled": np.asarray(100.0 * rows.settled_rows(split[2][:LOOKED_AT]).mean()),
        "leading": np.asarray(100.0 * leading_share(rows, split[2][:LOOKED_AT])),
    }


def _timed(model: Any, split: Split) -> tuple[float, tuple[float, float]]:
    began = time.perf_counter()
    model.fit(split[0], split[1])
    fitted = time.perf_counter()
    error = _error(model, split)
    return error, (fitted - began, time.perf_counter() - fitted)


def _error(model: Any, split: Split) -> float:
    return float(100.0 * np.mean(model.predict(split[2]) != split[3]))


def leading_share(model: BootstrapModelAveragingClassifier, X: FloatArray) -> float:
    """Median share of the model that counts most in a row's sum for its label."""
    mean = model.predict_joint_log_proba(X)
    best = np.argmax(mean, axis=1)
    rows = np.arange(best.size)
    largest = np.full(best.size, -np.inf)
    for one in model.estimators_:
        largest = np.maximum(largest, joint_scores(one, X, model.classes_)[rows, best])
    return float(np.median(np.exp(largest - mean[rows, best]) / model.n_estimators_))


def cells(options: Options) -> list[Cell]:
    """Every problem and share."""
    size = 10 if options.smoke else N_MODELS
    names = ("iris", "Boolean attributes") if options.smoke else tuple(PROBLEMS)
    return [_cell(name, share, size, options) for share in SHARES for name in names]


def _cell(name: str, share: float, size: int, options: Options) -> Cell:
    problem = PROBLEMS[name]
    n_train = int(share * problem.n_rows)
    plans = [Plan(name, n_train, size, None, 0, options.seed, r) for r in range(options.repetitions)]
    records = grow_all(options.cache, "model averaging", plans, partial(measure, name), options.n_jobs)
    errors = np.array([record["errors"] for record in records])
    seconds = np.array([record["seconds"] for record in records])
    return Cell(
        name,
        share,
        n_train,
        FRESH_ROWS if problem.generated else problem.n_rows - n_train,
        dict(zip(METHODS, errors.T, strict=True)),
        {method: np.median(seconds[:, number], axis=0) for number, method in enumerate(TIMED)},
        np.array([record["settled"] for record in records]),
        np.array([record["leading"] for record in records]),
    )


def harm_claims(found: Sequence[Cell]) -> list[Claim]:
    """Claim that no cell is significantly worse than the single model, by the worst cell of each way to draw."""
    limit = float(t.ppf(0.5 + LEVEL / 2, found[0].settled.size - 1))
    made = []
    for method in (ROWS, PARAMETRIC):
        for corrected, words in ((True, "corrected for splits that share rows"), (False, "plain")):
            worst, value = _worst(found, method, corrected=corrected)
            measure = f"{method}, worst cell ({worst.problem}, {100 * worst.share:g} %): t of its loss, {words}"
            made.append(Claim(measure, value, high=round(limit, 2), tried=HARM_TRIED))
    return made


def _worst(found: Sequence[Cell], method: str, *, corrected: bool) -> tuple[Cell, float]:
    """The cell where a method loses most, and t of the loss."""
    losses = [-cell.t_value(cell.gain(method), corrected) for cell in found]
    worst = int(np.argmax(losses))
    return found[worst], losses[worst]


def gain_claims(found: Sequence[Cell]) -> list[Claim]:
    """Claim the paper's order: averages over the single model, joint over conditional sums, parametric over rows."""
    pairs = [
        (ROWS, SINGLE, "the single model", SHARES),
        (PARAMETRIC, SINGLE, "the single model", SHARES[:1]),
        (ROWS, ROWS_CONDITIONAL, "conditional sums", SHARES),
        (PARAMETRIC, PARAMETRIC_CONDITIONAL, "conditional sums", ()),
        (ROWS, BAGGING, "bagging", SHARES),
        (ROWS, BOOSTING, "AdaBoost", SHARES),
        (PARAMETRIC, ROWS, "the same from rows", SHARES[:1]),
    ]
    made = []
    for share in SHARES:
        some = [cell for cell in found if cell.share == share]
        for method, over, words, targets in pairs:
            gains = [cell.gain(method, over) for cell in some]
            value = float(np.mean([gain.mean() for gain in gains]))
            se = np.sqrt(sum(cell.standard_error(g) ** 2 for cell, g in zip(some, gains, strict=True))) / len(some)
            measure = f"{100 * share:g} % for training, {method}: error below {words} (points, mean over data sets)"
            low = 0.0 if share in targets else -np.inf
            made.append(Claim(measure, value, float(se), low=low, tried=TRIED if method == PARAMETRIC else ""))
    return made


def error_table(found: Sequence[Cell], share: float) -> str:
    """Mean error of every method, with a mark where the difference to the single model is significant."""
    header = [f"error (%), {100 * share:g} % for training", *METHODS, "settled (%)", "leading model (%)"]
    lines = []
    for cell in found:
        if cell.share == share:
            marks = [f"{cell.errors[method].mean():.1f}{_mark(cell, method)}" for method in METHODS]
            lines.append([cell.problem, *marks, f"{cell.settled.mean():.0f}", f"{cell.leading.mean():.0f}"])
    return table(header, lines)


def _mark(cell: Cell, method: str) -> str:
    """Return plus signs for better, minus signs for worse than the single model: two by the corrected t, else one."""
    if method == SINGLE:
        return ""
    gain = cell.gain(method)
    limit = t.ppf(0.5 + LEVEL / 2, gain.size - 1)
    strength = sum(abs(cell.t_value(gain, corrected)) > limit for corrected in (True, False))
    return " " + ("+" if gain.mean() > 0 else "-") * strength if strength else ""


def seconds_table(found: Sequence[Cell]) -> str:
    """Median milliseconds to fit and to predict."""
    lines = [
        [
            f"{cell.problem}, {cell.n_train} and {cell.n_test} rows",
            *(f"{1000 * fit:.0f} + {1000 * predict:.0f}" for fit, predict in map(cell.seconds.__getitem__, TIMED)),
        ]
        for cell in found
        if cell.share == SHARES[-1]
    ]
    return table(["ms to fit + to predict", *TIMED], lines)


def guessed_shares(n_rows: int, share: float, n_models: int, seed: int) -> FloatArray:
    """Return the majority guesser's parameter in every model: naive Bayes with one feature that is constant."""
    y = (np.arange(n_rows) < round(share * n_rows)).astype(np.int64)
    X = np.zeros((n_rows, 1))
    base = BernoulliNB(alpha=1.0)
    model = BootstrapModelAveragingClassifier(base, n_estimators=n_models, random_state=seed).fit(X, y)
    # A sample without the label lacks its column: its share is 0.
    return np.array([np.exp(one.class_log_prior_)[one.classes_ == 1].sum() for one in model.estimators_])


def posterior_sections(options: Options) -> tuple[list[Claim], str]:
    """Compare bootstrapped shares with the Beta posterior under a uniform prior (section 8.2)."""
    repetitions, n_models = (100, 50) if options.smoke else (10_000, 3000)
    made, lines = [], []
    for share in POSTERIOR_SHARES:
        for n_rows in POSTERIOR_ROWS:
            ones = round(share * n_rows)
            exact = beta(ones + 1, n_rows - ones + 1)
            drawn = guessed_shares(n_rows, share, n_models, options.seed)
            distance = _kolmogorov(drawn, exact.cdf)
            means = bootstrap_share(
                n_rows, share, POSTERIOR_MODELS, repetitions, np.random.default_rng([options.seed, n_rows, ones])
            ).mean(axis=1)
            bound = float(mean_bound(exact.std(), POSTERIOR_MODELS, DELTA))
            missed = 100.0 * np.mean(np.abs(means - exact.mean()) > bound)
            lines.append(
                [
                    f"n = {n_rows}, share {share:g}",
                    f"{exact.mean():.4f} ({exact.std():.4f})",
                    f"{drawn.mean():.4f} ({drawn.std():.4f})",
                    f"{distance:.3f}",
                    f"{bound:.4f}",
                    f"{missed:.1f}",
                ]
            )
            se = float(drawn.std() / np.sqrt(drawn.size))
            limit = abs(share - exact.mean())
            measure = f"majority guesser, n = {n_rows}, share {share:g}: distance of the means, less that at T = ∞"
            made.append(
                Claim(measure, abs(abs(drawn.mean() - exact.mean()) - limit), se, high=round(4 * se, 4), digits=4)
            )
    header = [
        "majority guesser",
        "Beta posterior: mean (sd)",
        "bootstrap",
        "Kolmogorov",
        "eq. 11, T = 250",
        "above (%)",
    ]
    return made, table(header, lines)


def _kolmogorov(drawn: FloatArray, cdf: Callable[[FloatArray], FloatArray]) -> float:
    values, counts = np.unique(drawn, return_counts=True)
    steps = np.cumsum(counts) / drawn.size
    expected = cdf(values)
    return float(np.max(np.maximum(np.abs(steps - expected), np.abs(np.append(0.0, steps[:-1]) - expected))))


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 100, arguments, smoke=3)
    found = cells(options)
    posterior, posterior_table = posterior_sections(options)
    return conclude(
        __name__,
        options,
        [*harm_claims(found), *gain_claims(found), *posterior],
        [*(error_table(found, share) for share in SHARES), seconds_table(found), posterior_table],
    )
