"""What every law of size promises, whatever it is of; a new law gets all checks by adding itself to the list."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from ens_plugin.analysis.labels import agreement_law, curve_sizes
from ens_plugin.analysis.metric_curves import Resampled, SubsetAverages, subset_curve
from ens_plugin.analysis.sizes import NoLimit, SizeLaw
from ens_plugin.core.error_curve import extrapolate
from ens_plugin.core.intervals import DrawnCurve
from ens_plugin.core.label_shares import LabelRecord
from ens_plugin.core.losses import SquaredLoss
from tests.analysis.metric_curves.test_size_of_curve import settings_of
from tests.records import drawn

MAX_SIZE = 20_001


def of_agreement() -> SizeLaw:
    rng = np.random.default_rng(0)
    wrong = rng.binomial(40, rng.beta(1.0, 4.0, 300)).astype(np.float64)
    support = np.column_stack([40.0 - wrong, wrong])
    record = LabelRecord(support, np.full(300, 40.0), np.zeros(300, dtype=np.int64), np.ones(300))
    return agreement_law(drawn(record), curve_sizes(MAX_SIZE, 40), 0)


def of_records() -> SizeLaw:
    wrong = np.array([24.0, 12.0, 3.0])
    record = LabelRecord(np.column_stack([60.0 - wrong, wrong]), np.full(3, 60.0), np.zeros(3, dtype=int), np.ones(3))
    return agreement_law(drawn(record).standing_for(np.full(3, 100.0)), curve_sizes(MAX_SIZE, 60), 0)


def of_error() -> SizeLaw:
    sizes = np.append(np.unique((np.geomspace(1, MAX_SIZE, 60).astype(int) - 1) // 2 * 2 + 1).astype(float), np.inf)
    slopes = np.random.default_rng(0).normal(0.2, 0.03, (200, 1))
    return DrawnCurve(sizes, 0.1 + 0.2 / sizes, 0.1 + slopes / sizes)


def of_squares() -> SizeLaw:
    return SquaredLoss(1.0, 2.0, np.diag([0.01, 0.02]))


def of_ranking() -> SizeLaw:
    sizes = np.array([1, 2, 3, 5, 8, 12, 20])
    by_order = np.tile(0.9 - 0.3 / sizes, (4, 1))
    averages, settings = SubsetAverages(sizes, by_order, (4, 6), np.arange(5)), settings_of("roc_auc", 0.01)
    moments = Resampled(0.001, 0.0, 1e-6)
    return subset_curve(extrapolate(sizes, by_order[0]), averages, moments, (0.0, 1.0), settings)


def of_labels() -> SizeLaw:
    sizes = np.append(np.arange(1.0, 4001.0, 2.0), np.inf)
    slopes = np.random.default_rng(0).normal(0.3, 0.05, (50, 1))
    return DrawnCurve(sizes, 0.8 - 0.3 / sizes, 0.8 - slopes / sizes, np.inf)


class Case(NamedTuple):
    """A law, and the loss that is allowed."""

    name: str
    make: Callable[[], SizeLaw]
    tolerance: float


CASES = (
    Case("agreement", of_agreement, 0.01), Case("records", of_records, 0.02), Case("error", of_error, 0.005),
    Case("squares", of_squares, 0.05), Case("ranking", of_ranking, 0.01), Case("labels", of_labels, 0.01),
)  # fmt: skip


@pytest.fixture(params=CASES, ids=[case.name for case in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def is_close(case: Case, losses: np.ndarray) -> np.ndarray:
    return losses <= case.tolerance + 1e-12


def test_the_losses_tend_to_0(case: Case) -> None:
    losses = case.make().losses([11, 101, 1001, 100_001])
    assert (losses >= 0).all()
    assert (np.diff(losses) <= 0).all()
    assert losses[-1] < 0.01


def test_the_size_is_the_first_from_which_on_the_losses_are_allowed(case: Case) -> None:
    law = case.make()
    size = law.size_within(case.tolerance, MAX_SIZE)
    # Laws that are known at odd sizes of a grid are interpolated between them.
    assert is_close(case, law.losses([int(1.05 * size) + 2, 10 * size])).all()
    assert size <= 2 or not is_close(case, law.losses([max(int(0.95 * size) - 2, 1)])).any()
    # One above the largest is none.
    assert law.size_within(case.tolerance, max(size // 2, 1)) is None


def test_the_interval_holds_the_size_widens_with_its_level_and_moves_with_the_tolerance(case: Case) -> None:
    law = case.make()
    size, (low, high) = law.size_within(case.tolerance, MAX_SIZE), law.size_interval(case.tolerance, MAX_SIZE, 0.95)
    assert 1 <= low <= size <= high
    narrow_low, narrow_high = law.size_interval(case.tolerance, MAX_SIZE, 0.5)
    assert low <= narrow_low
    assert narrow_high <= high
    assert narrow_high - narrow_low < high - low
    smaller_low, smaller_high = law.size_interval(3.0 * case.tolerance, MAX_SIZE, 0.95)
    assert smaller_low <= low
    assert smaller_high < high


def test_without_a_limit_nothing_is_known() -> None:
    law = NoLimit()
    assert np.isnan(law.losses([1, 10, 100])).all()
    assert law.size_within(0.01, MAX_SIZE) is None
    assert law.size_interval(0.01, MAX_SIZE, 0.95) == (1, None)
