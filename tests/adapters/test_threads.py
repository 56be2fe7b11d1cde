from __future__ import annotations

import threading

import pytest
from joblib import parallel_config

from ens_plugin.adapters.members import in_threads


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(n_jobs: int) -> None:
    with parallel_config(n_jobs=n_jobs):
        assert list(in_threads(lambda item: item**2, range(20))) == [item**2 for item in range(20)]
        assert list(in_threads(abs, [])) == []


def test_one_job_stays_in_the_callers_thread() -> None:
    with parallel_config(n_jobs=1):
        assert set(in_threads(lambda _: threading.get_ident(), range(5))) == {threading.get_ident()}


def test_two_jobs_work_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=30)
    with parallel_config(n_jobs=2):
        assert sorted(in_threads(lambda _: both.wait(), range(2))) == [0, 1]


def test_an_error_reaches_the_caller() -> None:
    def fail(item: int) -> int:
        raise ValueError(f"item {item}")

    with parallel_config(n_jobs=2), pytest.raises(ValueError, match="item 0"):
        list(in_threads(fail, range(4)))
