"""The universal tables of 2017 against plain simulation, ten million draws of an ensemble a cell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr

from ens_plugin.papers.score_tables_2017.score_tables import ScoreTables, score_quadrature
from ens_plugin.papers.score_tables_2017.scores import NormalScores, expected_loss

FloatArray = NDArray[np.float64]

# Mean score, spread of one member's score, members; sizes with a table of their own and between the nodes.
CELLS = (
    (0.3, 1.0, 3),
    (-0.4, 2.5, 4),
    (0.8, 4.0, 5),
    (1.5, 1.5, 10),
    (-0.2, 0.6, 12),
    (0.5, 3.0, 27),
    (0.15, 5.0, 38),
    (0.4, 7.5, 60),
    (0.05, 2.0, 200),
)
BLOCK = 50_000
# Up to this many members the chance is taken given all but one, above given how they differ.
FEW, NEWTON_STEPS, FOUND = 5, 12, 1e-6
OUTCOMES = (
    ("mean_proba", "zero_one"),
    ("mean_proba", "log"),
    ("mean_proba", "squared"),
    ("mean_score", "log"),
    ("mean_score", "squared"),
)


class CellError(NamedTuple):
    """Table minus simulation in one cell, with the simulation's standard error."""

    cell: tuple[float, float, int]
    aggregation: str
    loss: str
    error: float
    standard_error: float


def simulate_cell(tables: ScoreTables, cell: tuple[float, float, int], draws: int, seed: int) -> list[CellError]:
    """Compare one cell, both ways of mixing and all losses.

    The simulation is sharpened, since ten million bare draws have a standard error of 1.6e-4: instead of whether an
    ensemble is wrong, its chance given most of the draw; and regression on quantities with a known mean (powers of
    the mean score, the mean probability, ...), known by quadrature and not from the tables.
    """
    a, spread, size = cell
    rng = np.random.default_rng([seed, CELLS.index(cell)])
    known = _known_means(a, spread, size)
    moments = np.zeros((known.size + 6, known.size + 6))
    for _ in range(max(1, draws // BLOCK)):
        values = _draw(a, spread, size, rng)
        values[:, : known.size] -= known
        stacked = np.column_stack([values, np.ones(BLOCK)])
        moments += stacked.T @ stacked
    count = max(1, draws // BLOCK) * BLOCK
    row = NormalScores(np.array([a]), np.array([spread**2]), np.ones(1))
    found = []
    for index, (aggregation, loss) in enumerate(OUTCOMES):
        mean, error = _regressed(moments, known.size, known.size + index, count)
        table = float(expected_loss(row, [size], tables, loss=loss, aggregation=aggregation)[0, 0])
        found.append(CellError(cell, aggregation, loss, table - mean, error))
    return found


def _draw(a: float, spread: float, size: int, rng: np.random.Generator) -> FloatArray:
    """Controls, then outcomes, of one block of ensembles."""
    z = rng.standard_normal((size, BLOCK))
    common = z.mean(axis=0)
    residual = z - common
    probabilities = expit(a + spread * z)
    p, mean = probabilities.mean(axis=0), a + spread * common
    scaled = common * np.sqrt(size)
    link = expit(mean)
    log_link, square_link = np.logaddexp(0.0, -mean), 2.0 * (1.0 - link) ** 2
    apart = expit(a + spread * residual).mean(axis=0)
    controls = [scaled, scaled**2, scaled**3, scaled**4, mean < 0, p, np.maximum(-mean, 0.0), apart]
    wrong = _given_others(a, spread, probabilities) if size <= FEW else _given_residuals(a, spread, residual)
    outcomes = [wrong, -np.log(p), 2.0 * (1.0 - p) ** 2, log_link, square_link]
    return np.column_stack([*controls, *outcomes]).astype(np.float64)


def _given_others(a: float, spread: float, probabilities: FloatArray) -> FloatArray:
    """Chance that the mean is below one half given all members but one, averaged over which one."""
    room = np.clip(probabilities.shape[0] / 2.0 - (probabilities.sum(axis=0) - probabilities), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(ndtr((logit(room) - a) / spread).mean(axis=0))


def _given_residuals(a: float, spread: float, residual: FloatArray) -> FloatArray:
    """Chance that the mean is below one half given how members differ from their mean, which is independent of it."""
    size = residual.shape[0]
    common = np.full(residual.shape[1], -a / spread)
    for _ in range(NEWTON_STEPS):
        p = expit(a + spread * (common + residual))
        excess = p.mean(axis=0) - 0.5
        if np.abs(excess).max() <= FOUND:
            break
        slope = np.maximum(spread * (p * (1.0 - p)).mean(axis=0), 1e-3)
        common = common - np.clip(excess / slope, -0.5, 0.5)
    if np.abs(excess).max() > FOUND:
        raise RuntimeError(f"the threshold of a simulated ensemble of {size} was not found")
    return np.asarray(ndtr(np.sqrt(size) * common))


def _known_means(a: float, spread: float, size: int) -> FloatArray:
    nodes, weights = score_quadrature(spread)
    sd = spread / np.sqrt(size)
    density = np.exp(-0.5 * (a / sd) ** 2) / np.sqrt(2.0 * np.pi)
    below = ndtr(-a / sd)
    single = weights @ expit(a + spread * nodes)
    apart = weights @ expit(a + spread * np.sqrt(1.0 - 1.0 / size) * nodes)
    return np.array([0.0, 1.0, 0.0, 3.0, below, single, sd * density - a * below, apart])


def _regressed(moments: FloatArray, n_controls: int, outcome: int, count: int) -> tuple[float, float]:
    """Intercept of the least squares of an outcome on the centred controls, and its standard error."""
    columns = [*range(n_controls), moments.shape[0] - 1]
    gram, cross = moments[np.ix_(columns, columns)], moments[columns, outcome]
    inverse = np.linalg.inv(gram)
    slopes = inverse @ cross
    residual = max(moments[outcome, outcome] - slopes @ cross, 0.0) / (count - len(columns))
    return float(slopes[-1]), float(np.sqrt(residual * inverse[-1, -1]))
