"""A Boolean belief network learned from rows: bootstrapped averages against its posterior (2004 section 8.3).

The paper's network (its Fig. 5) did not survive in the copy at hand. In its place is the chest clinic ("Asia") of
Lauritzen and Spiegelhalter, Local Computations with Probabilities on Graphical Structures, J. R. Stat. Soc. B 50, 1988.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared.markdown import table
from benchmarks.shared.results import Claim
from ens_plugin.papers.model_averaging_2004 import settled_rows

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class Node(NamedTuple):
    """A variable, and its chance to be true for each combination of its parents, the last of which changes fastest."""

    name: str
    parents: tuple[int, ...]
    chances: tuple[float, ...]


CLINIC = (
    Node("visit to Asia", (), (0.01,)),
    Node("tuberculosis", (0,), (0.01, 0.05)),
    Node("smoking", (), (0.5,)),
    Node("lung cancer", (2,), (0.01, 0.1)),
    Node("bronchitis", (2,), (0.3, 0.6)),
    Node("tuberculosis or lung cancer", (1, 3), (0.0, 1.0, 1.0, 1.0)),
    Node("positive X-ray", (5,), (0.05, 0.98)),
    Node("dyspnoea", (4, 5), (0.1, 0.7, 0.8, 0.9)),
)
N_NODES = len(CLINIC)
# All combinations of values, shape (2 ** N_NODES, N_NODES).
STATES = (np.arange(2**N_NODES)[:, None] >> np.arange(N_NODES)) & 1
PARENTS = tuple(
    sum((STATES[:, parent] << (len(node.parents) - 1 - place) for place, parent in enumerate(node.parents)), 0)
    * np.ones(len(STATES), dtype=np.int64)
    for node in CLINIC
)

DELTA, N_QUERIES, KNOWN = 0.05, 1000, 0.5
TRAINING_ROWS = (50, 100, 200, 1000)
PAPER_PERCENT = 2.0


class Queries(NamedTuple):
    """States that agree with what is known and with either label asked for, each of shape (n_queries, n_states)."""

    true: BoolArray
    false: BoolArray


def joint_probabilities(chances: list[FloatArray]) -> FloatArray:
    """Return the probability of every state, shape (..., n_states), from the chances of every node."""
    joint = np.ones(())
    for node, of_node in enumerate(chances):
        chance = of_node[..., PARENTS[node]]
        joint = joint * np.where(STATES[:, node] == 1, chance, 1.0 - chance)
    return np.asarray(joint)


def fitted_chances(counts: FloatArray, pseudo_count: float) -> list[FloatArray]:
    """Return every node's chances from counts of states, shape (..., n_states); 1/2 where there is no row.

    A pseudo-count of 0 gives the most probable parameters under a uniform prior, one of 1 their posterior mean.
    """
    chances = []
    for node, codes in enumerate(PARENTS):
        at = (codes[:, None] == np.arange(2 ** len(CLINIC[node].parents))).astype(np.float64)
        total = counts @ at + 2.0 * pseudo_count
        true = counts @ (at * STATES[:, [node]]) + pseudo_count
        chances.append(np.divide(true, total, out=np.full_like(total, 0.5), where=total > 0))
    return chances


def draw_queries(truth: FloatArray, n_queries: int, rng: np.random.Generator) -> Queries:
    """Draw a variable to ask for, and what is known of the others: values of a state drawn from the network."""
    values = STATES[rng.choice(truth.size, n_queries, p=truth)]
    asked = rng.integers(N_NODES, size=n_queries)
    known = rng.random((n_queries, N_NODES)) < KNOWN
    known[np.arange(n_queries), asked] = False
    agrees = np.all((values[:, None] == STATES) | ~known[:, None], axis=2)
    is_true = STATES[:, asked].T == 1
    return Queries(agrees & is_true, agrees & ~is_true)


def answers(joint: FloatArray, queries: Queries) -> FloatArray:
    """Return the joint probability of what is known and of each label, shape (..., n_queries, 2)."""
    return np.stack([joint @ label.T.astype(np.float64) for label in queries], axis=-1)


def compare(n_rows: int, n_models: int, rng: np.random.Generator) -> FloatArray:
    """Share of the queries answered otherwise than by the optimal Bayes classifier, by T models and by one.

    The third number is the share of queries whose label T models settle, the fourth that of other labels among them.
    """
    truth = joint_probabilities([np.array(node.chances) for node in CLINIC])
    counts = rng.multinomial(n_rows, truth).astype(np.float64)
    queries = draw_queries(truth, N_QUERIES, rng)
    # The sum over complete rows is linear in each parameter, and parameters are independent: the posterior mean of the
    # joint probability is that of the network with the posterior means of the parameters.
    optimal = answers(joint_probabilities(fitted_chances(counts, 1.0)), queries).argmax(axis=1)
    samples = rng.multinomial(n_rows, counts / n_rows, n_models).astype(np.float64)
    scores = answers(joint_probabilities(fitted_chances(samples, 0.0)), queries)
    averaged = scores.mean(axis=0).argmax(axis=1)
    single = answers(joint_probabilities(fitted_chances(counts, 0.0)), queries).argmax(axis=1)
    # A combination without rows in any sample has probability 0 under every model.
    possible = scores.max(axis=(0, 2)) > 0
    settled = np.zeros(N_QUERIES, dtype=bool)
    with np.errstate(divide="ignore"):
        settled[possible] = settled_rows(np.log(scores[:, possible]), DELTA)
    wrong = averaged != optimal
    return np.array([wrong.mean(), np.mean(single != optimal), settled.mean(), wrong[settled].mean()])


def network_section(repetitions: int, n_models: int, seed: int) -> tuple[list[Claim], str]:
    """Compare from several numbers of training rows, of which the paper does not give its own."""
    claims, lines = [], []
    for n_rows in TRAINING_ROWS:
        found = [compare(n_rows, n_models, np.random.default_rng([seed, n_rows, r])) for r in range(repetitions)]
        mean = 100.0 * np.mean(found, axis=0)
        se = 100.0 * np.std(found, axis=0, ddof=1) / np.sqrt(repetitions)
        name = f"belief network, {n_rows} rows"
        claims += [
            Claim(f"{name}: labels other than the optimal Bayes classifier's (%)", mean[0], se[0], high=PAPER_PERCENT),
            Claim(f"{name}: the same among settled labels (%)", mean[3], se[3], high=100.0 * DELTA),
        ]
        lines.append([f"{n_rows} training rows", *(f"{m:.2f} ± {e:.2f}" for m, e in zip(mean, se, strict=True))])
    header = [
        f"section 8.3, chest clinic, labels other than the optimal Bayes classifier's (%), T = {n_models}",
        "averaged (paper, Fig. 5: 2)",
        "single model",
        "settled (%)",
        "averaged, of settled",
    ]
    return claims, table(header, lines)
