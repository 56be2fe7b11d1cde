"""Run every benchmark of the checks of rows, one after the other."""

from __future__ import annotations

from benchmarks.checks import alike_rows, attacks, copies, row_order, shuffled_subjects, training_rows, training_share

if __name__ == "__main__":
    for script in (alike_rows, copies, row_order, shuffled_subjects, training_rows, training_share, attacks):
        print(script.main())
