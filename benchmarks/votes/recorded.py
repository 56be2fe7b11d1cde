"""Votes that a classifier really gave: majorities of more samples than there are, and what early stopping saves.

Classifiers trained on 900 digits label each of the others 1001 times, each time with 30 % of the pixels: a sample.
The truth at 64 is over random choices of the samples, and that at infinity is the majority of all. Both are on the
same questions. Stopping: each question is asked until a rule settles it at the level 0.05, at most 64 times; Beta is
the rule of adaptive consistency.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude, root_mean_square
from benchmarks.votes.simulated import counted_answers, won
from ens_plugin.core.certificate import is_settled
from ens_plugin.errors import EnsPluginWarning

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

N_TRAINED, KEPT = 900, 0.3
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "logistic regression": lambda: LogisticRegression(max_iter=500),
    "naive Bayes": lambda: GaussianNB(var_smoothing=1e-2),
    "nearest neighbours": lambda: KNeighborsClassifier(5),
}
SAMPLES, LARGE, MOST = (5, 8, 16), 64, 64
LEVEL = 0.05


class Votes(NamedTuple):
    """Recorded answers, shape (n_questions, n_recorded), and the right ones, shape (n_questions,)."""

    answers: IntArray
    right: IntArray


@cache
def recorded(name: str, n_recorded: int, seed: int) -> Votes:
    """Let a classifier of digits label each held-out row many times, each time without most of its pixels."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    trained, asked = order[:N_TRAINED], order[N_TRAINED:]
    model = CLASSIFIERS[name]().fit(X[trained], y[trained])
    mean = X[trained].mean(axis=0)
    answers = [
        model.predict(np.where(rng.random((asked.size, X.shape[1])) < KEPT, X[asked], mean)) for _ in range(n_recorded)
    ]
    return Votes(np.stack(answers, axis=1).astype(np.int64), y[asked].astype(np.int64))


def counts(answers: IntArray) -> IntArray:
    """Return how often each label was given, shape (n_questions, 10)."""
    return counted_answers(answers, 10)


def majority_error(votes: Votes, size: int, rng: np.random.Generator) -> float:
    """Return the error of majorities of so many of the recorded answers, over random choices of them."""
    n_recorded = votes.answers.shape[1]
    chosen = [rng.permutation(n_recorded)[:size] for _ in range(40)]
    return 1.0 - float(np.mean([won(counts(votes.answers[:, each]), votes.right).mean() for each in chosen]))


def extrapolated(votes: Votes, n_samples: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return the error at 64 and at infinity by the package from some of the answers, and the plug-in's at 64."""
    part = votes.answers[:, rng.permutation(votes.answers.shape[1])[:n_samples]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EnsPluginWarning)
        report = ens_plugin.analyze_votes(part, votes.right, n_jobs=1).report
    assert report is not None
    shares = counts(part) / n_samples
    plug_in = 1.0 - np.mean([won(rng.multinomial(LARGE, shares), votes.right).mean() for _ in range(20)])
    return report.error_curve.at(LARGE), report.error_curve.asymptote, float(plug_in)


def certified(votes: IntArray) -> BoolArray:
    """Return which questions the package's proof settles."""
    return np.asarray(is_settled(votes, LEVEL))


def by_beta(votes: IntArray) -> BoolArray:
    """Return which questions adaptive consistency (Aggarwal et al. 2023) settles: the runner-up is behind by Beta."""
    runner_up, leader = np.sort(votes, axis=1)[:, -2:].T
    return np.asarray(betainc(runner_up + 1.0, leader + 1.0, 0.5) >= 1.0 - LEVEL)


RULES: dict[str, Callable[[IntArray], BoolArray]] = {"certificate": certified, "Beta": by_beta}


class Stopped(NamedTuple):
    """Mean samples until a rule stops, questions it settles, and those of them whose answer is not the infinite one."""

    samples: float
    settled: float
    wrong: float
    error: float


def stopped(votes: Votes, rule: Callable[[IntArray], BoolArray], rng: np.random.Generator) -> Stopped:
    """Ask until a rule settles each question, at most 64 times."""
    order = rng.permuted(votes.answers, axis=1)[:, :MOST]
    limit = counts(votes.answers).argmax(axis=1)
    n_questions = votes.right.size
    asked, answer, settled = np.full(n_questions, MOST), counts(order).argmax(axis=1), np.zeros(n_questions, dtype=bool)
    for size in range(1, MOST + 1):
        now = counts(order[:, :size])
        new = rule(now) & ~settled
        asked[new], answer[new] = size, now.argmax(axis=1)[new]
        settled |= new
    return Stopped(
        float(asked.mean()),
        float(settled.mean()),
        float(np.mean(settled & (answer != limit))),
        float(np.mean(answer != votes.right)),
    )


def stopping_rows(n_recorded: int, repetitions: int, seed: int) -> Iterator[tuple[str, str, Stopped, float]]:
    """Yield for each classifier and rule what stopping gives, and the error of always asking 64 times."""
    for name in CLASSIFIERS:
        votes = recorded(name, n_recorded, seed)
        fixed = majority_error(votes, MOST, np.random.default_rng(seed))
        for rule, settles in RULES.items():
            runs = [stopped(votes, settles, np.random.default_rng([seed, run])) for run in range(repetitions)]
            yield name, rule, Stopped(*np.mean(runs, axis=0)), fixed


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options("benchmarks.votes.recorded", __doc__, 20, arguments)
    n_recorded = 100 if options.smoke else 1001
    lines, ours, plugged = [], [], []
    for name in CLASSIFIERS:
        votes = recorded(name, n_recorded, options.seed)
        true = majority_error(votes, LARGE, np.random.default_rng(options.seed))
        limit = float(np.mean(counts(votes.answers).argmax(axis=1) != votes.right))
        for n_samples in SAMPLES[:1] if options.smoke else SAMPLES:
            found = np.array(
                [
                    extrapolated(votes, n_samples, np.random.default_rng([options.seed, n_samples, run]))
                    for run in range(options.repetitions)
                ]
            )
            off = 100.0 * (found - [true, limit, true])
            ours.append(off[:, 0])
            plugged.append(off[:, 2])
            rms = [root_mean_square(column) for column in off.T]
            lines.append(
                [
                    name, str(n_samples), f"{100 * true:.2f}", f"{off[:, 0].mean():+.2f}", f"{rms[0]:.2f}",
                    f"{rms[2]:.2f}", f"{100 * limit:.2f}", f"{off[:, 1].mean():+.2f}", f"{rms[1]:.2f}",
                ]
            )  # fmt: skip
    stops = list(stopping_rows(n_recorded, options.repetitions, options.seed))
    wrong = max(100.0 * found.wrong for _, rule, found, _ in stops if rule == "certificate")
    return conclude(
        "benchmarks.votes.recorded",
        options,
        [
            Claim(
                f"error at {LARGE} over the plug-in's, root mean square",
                root_mean_square(np.concatenate(ours)) / root_mean_square(np.concatenate(plugged)), high=1.0,
            ),
            Claim("settled by the certificate with another answer than the infinite one (%)", wrong, high=100 * LEVEL),
        ],
        [
            table(
                [
                    "classifier", "samples", f"error at {LARGE} (%)", "mean (points)", "rms", "plug-in: rms",
                    "at infinity (%)", "mean (points)", "rms",
                ],
                lines,
            ),
            table(
                ["classifier", "rule", "samples", "settled (%)", "settled wrongly (%)", "error (%)", "error of 64"],
                [
                    [
                        name, rule, f"{found.samples:.1f}", f"{100 * found.settled:.1f}", f"{100 * found.wrong:.2f}",
                        f"{100 * found.error:.2f}", f"{100 * fixed:.2f}",
                    ]
                    for name, rule, found, fixed in stops
                ],
            ),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    print(main())
