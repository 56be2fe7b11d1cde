"""Which of scikit-learn's own checks repeat another on the same data in another form."""

from __future__ import annotations

__all__ = ["REPEATED_CHECKS"]

# Each has a sibling in the fast suite: dense float64 rows in memory, one format of sparse rows.
REPEATED_CHECKS = (
    "check_estimator_sparse_matrix",
    "check_classifiers_train(readonly_memmap=True",
    "check_sample_weight_equivalence_on_sparse_data",
)
