"""The bootstrap distribution of naive Bayes' parameters against their posterior (2004 Table 10; Fig. 1, 4, 6, 7)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.naive_bayes import BernoulliNB

from benchmarks.shared.keel import keel_rows
from benchmarks.shared.markdown import table
from benchmarks.shared.results import Claim
from ens_plugin.papers.model_averaging_2004 import BootstrapModelAveragingClassifier

FloatArray = NDArray[np.float64]

# Table 10 for attributes 1 to 16: differences of means and of standard deviations, and KL distance.
PAPER = {
    "mean": (0.04, 0.01, 0, 0.08, 0.01, 0.01, 0.01, 0, 0.01, 0, 0.01, 0.03, 0, 0.01, 0.01, 0),
    "sd": (
        *(0.001, 0.001, 0.002, 0.002, 0, 0, 0.002, 0.002),
        *(0.003, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.002),
    ),
    "KL": (0.24, 0.08, 0.03, 2.05, 0.1, 0.12, 0.1, 0.1, 0.06, 0.07, 0.1, 0.3, 0.1, 0.07, 0.1, 0.05),
}
DIGITS = {"mean": 3, "sd": 3, "KL": 2}
PAPER_MODELS = 100
CELL = 0.01
EDGES = np.linspace(0.0, 1.0, round(1.0 / CELL) + 1)
DEMOCRAT = 0
# The most probable parameters, as the paper's learner returns them.
PSEUDO_COUNT = 1e-10
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "vote_posterior.png"


class Parameters(NamedTuple):
    """Each model's chances of a yes, shape (n_models, n_attributes), and the numbers of yes and no votes."""

    drawn: FloatArray
    yes: FloatArray
    no: FloatArray


def vote_parameters(n_models: int, seed: int) -> Parameters:
    """Return the chances that a democrat votes yes on each bill, from bootstrap samples of the voters."""
    votes, party = keel_rows("housevotes")
    base = BernoulliNB(alpha=PSEUDO_COUNT)
    model = BootstrapModelAveragingClassifier(base, n_estimators=n_models, random_state=seed).fit(votes, party)
    drawn = np.exp([one.feature_log_prob_[DEMOCRAT] for one in model.estimators_])
    yes = votes[party == DEMOCRAT].sum(axis=0)
    return Parameters(drawn, yes, np.count_nonzero(party == DEMOCRAT) - yes)


def divergence(drawn: FloatArray, yes: float, no: float) -> float:
    """Return the Kullback-Leibler divergence of the draws' shares in cells of a hundredth from the posterior's."""
    share = np.histogram(drawn, EDGES)[0] / drawn.size
    expected = np.diff(beta(yes + 1.0, no + 1.0).cdf(EDGES))
    hit = share > 0
    return float(np.sum(share[hit] * np.log(share[hit] / expected[hit])))


def distances(parameters: Parameters) -> dict[str, FloatArray]:
    """Return the three columns of Table 10, under a uniform prior."""
    exact = beta(parameters.yes + 1.0, parameters.no + 1.0)
    return {
        "mean": np.abs(parameters.drawn.mean(axis=0) - exact.mean()),
        "sd": np.abs(parameters.drawn.std(axis=0, ddof=1) - exact.std()),
        "KL": np.array(
            [divergence(*one) for one in zip(parameters.drawn.T, parameters.yes, parameters.no, strict=True)]
        ),
    }


def posterior_section(n_models: int, seed: int) -> tuple[list[Claim], str]:
    """Compare 100 models, as in the paper, and many."""
    few, many = (distances(vote_parameters(models, seed)) for models in (PAPER_MODELS, n_models))
    claims = [
        Claim(
            f"Table 10, {PAPER_MODELS} models: {name} distance from the posterior, median over 16 attributes",
            float(np.median(few[name])),
            high=float(np.median(PAPER[name])),
            digits=DIGITS[name],
            tried=TRIED,
        )
        for name in PAPER
    ]
    lines = [
        [str(attribute + 1)]
        + [
            cell
            for name, printed in PAPER.items()
            for cell in (
                f"{printed[attribute]:g}",
                *(f"{found[name][attribute]:.{DIGITS[name]}f}" for found in (few, many)),
            )
        ]
        for attribute in range(len(few["mean"]))
    ]
    header = ["Table 10: attribute"]
    header += [f"{name}: {of}" for name in PAPER for of in ("paper", f"{PAPER_MODELS} models", f"{n_models}")]
    return claims, table(header, lines)


def draw_posterior(parameters: Parameters, path: Path = PICTURE) -> None:
    """Draw posteriors as lines and the models' shares as points (Fig. 6 and 7), attributes 1 to 8 and 9 to 16."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    chance = np.linspace(0.0, 1.0, 501)
    half = parameters.yes.size // 2
    for axes, first in zip(figure.subplots(1, 2, sharey=True), (0, half), strict=True):
        for attribute in range(first, first + half):
            exact = beta(parameters.yes[attribute] + 1.0, parameters.no[attribute] + 1.0)
            (line,) = axes.plot(chance, CELL * exact.pdf(chance), linewidth=1.2, label=str(attribute + 1))
            share = np.histogram(parameters.drawn[:, attribute], EDGES)[0] / parameters.drawn.shape[0]
            hit = share > 0
            axes.plot(EDGES[:-1][hit] + CELL / 2, share[hit], ".", color=line.get_color(), markersize=4)
        axes.set_xlabel("Chance that a democrat votes yes")
        axes.legend(title="Attribute", ncols=2, fontsize="small", title_fontsize="small")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("Share in a cell of 0.01")
    figure.savefig(path, dpi=110)


TRIED = (
    "3000 models, with most divergences a tenth of those of 100 (table below): what is left with 100 is the noise of "
    "100 draws in cells of 0.01, about the paper's; the standard error of their standard deviation is 0.003 here, "
    "with 124 democrats all of whose votes are known (the paper's are more, and its cells are not stated)."
)
