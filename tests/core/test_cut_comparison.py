from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, hypergeom, norm

from ens_plugin.core.comparison import agreement_interval, interval_over_seeds
from ens_plugin.errors import InputError


def test_share_is_of_the_weight_of_the_rows() -> None:
    share, lower, upper = agreement_interval(["a", "b", "c"], ["a", "b", "a"], [1.0, 1.0, 2.0], 0.95)
    assert share == 0.5
    assert lower < 0.5 < upper


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("n_same", [0, 70, 100])
def test_ends_are_where_a_score_test_changes_its_mind(n_same: int, level: float) -> None:
    """Wilson's interval by definition: shares p with |found - p| <= z sqrt(p (1 - p) / n)."""
    first, second = np.zeros(100), np.r_[np.zeros(n_same), np.ones(100 - n_same)]
    share, lower, upper = agreement_interval(first, second, None, level)
    assert share == n_same / 100
    z = norm.ppf(0.5 + level / 2)
    for end in {lower, upper} - {0.0, 1.0}:
        assert abs(share - end) == pytest.approx(z * np.sqrt(end * (1 - end) / 100), rel=1e-9)
    assert (lower == 0.0) is (n_same == 0)
    assert (upper == 1.0) is (n_same == 100)


def test_copies_of_a_row_by_weight_do_not_narrow_the_interval() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 2, (2, 60))
    plain = agreement_interval(first, second, None, 0.95)
    assert agreement_interval(first, second, np.full(60, 7.0), 0.95) == pytest.approx(plain)


def test_rows_without_weight_do_not_count() -> None:
    found = agreement_interval([0, 1, 0], [0, 1, 1], [1.0, 1.0, 0.0], 0.95)
    assert found == pytest.approx(agreement_interval([0, 1], [0, 1], None, 0.95))


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError):
        agreement_interval([0, 1], [0, 1], [1.0], 0.95)


def test_independent_variances_add_up() -> None:
    z = norm.ppf(0.975)
    lower, upper = interval_over_seeds(0.5, (0.5 - 3 * z, 0.5 + 6 * z), 4.0, 0.95)
    assert lower == pytest.approx(0.5 - 5 * z)
    assert upper == pytest.approx(0.5 + np.sqrt(52) * z)


@pytest.mark.parametrize(("size", "n_members"), [(1, 3), (3, 5), (5, 21), (11, 13), (51, 201)])
@pytest.mark.parametrize("wrong", [0.01, 0.2, 0.4, 0.49])
def test_members_agree_with_all_members_at_least_as_with_infinitely_many(
    size: int, n_members: int, wrong: float
) -> None:
    """Why the wanted agreement with the infinite ensemble may be demanded of the labels of all members."""
    votes = np.arange(n_members + 1)
    chance = binom.pmf(votes, n_members, wrong)
    first_err = hypergeom.sf(size // 2, n_members, votes, size)
    all_err = votes > n_members / 2
    differing = chance @ np.where(all_err, 1 - first_err, first_err)
    assert chance @ first_err == pytest.approx(binom.sf(size // 2, size, wrong))
    assert differing <= binom.sf(size // 2, size, wrong) + 1e-12
