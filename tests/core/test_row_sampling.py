"""A random sample of rows that depends on each row alone."""

from __future__ import annotations

import numpy as np
from scipy.stats import kstest

from ens_plugin.core.sample import sample_keys, smallest_keys, spread_rows


def test_keys_are_distinct_and_uniform() -> None:
    keys = sample_keys(np.arange(100_000), 5)
    assert np.unique(keys).size == keys.size
    assert kstest(keys / 2.0**64, "uniform").pvalue > 1e-3


def test_a_rows_key_depends_on_no_other_row() -> None:
    rows = np.array([0, 70_000, 149_999])
    np.testing.assert_array_equal(sample_keys(np.arange(150_000), 5)[rows], sample_keys(rows, 5))


def test_keys_of_another_seed_are_unrelated() -> None:
    first, second = (sample_keys(np.arange(10_000), seed) for seed in (0, 1))
    assert abs(np.corrcoef(first / 2.0**64, second / 2.0**64)[0, 1]) < 0.05


def test_sample_of_the_whole_is_that_of_the_samples_of_its_parts() -> None:
    rows = np.random.default_rng(0).permutation(1000)
    whole = set(np.arange(1000)[smallest_keys(sample_keys(np.arange(1000), 7), 50)])
    parts = [part[smallest_keys(sample_keys(part, 7), 50)] for part in np.array_split(rows, 9)]
    merged = np.concatenate(parts)
    assert set(merged[smallest_keys(sample_keys(merged, 7), 50)]) == whole
    assert len(whole) == 50


def test_few_rows_are_all_sampled() -> None:
    assert smallest_keys(sample_keys(np.arange(3), 0), 3).tolist() == [0, 1, 2]


def test_some_rows_are_spread_evenly_and_few_are_all() -> None:
    assert spread_rows(9, 3).tolist() == [0, 4, 8]
    assert spread_rows(2, 3).tolist() == [0, 1]
