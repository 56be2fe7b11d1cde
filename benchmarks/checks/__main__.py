"""Run every benchmark of the checks of rows, one after the other."""

from __future__ import annotations

from benchmarks.checks import (
    alike_rows,
    attacks,
    copies,
    links,
    row_order,
    shuffled_subjects,
    steps,
    training_rows,
    training_share,
)

if __name__ == "__main__":
    of_rows = alike_rows, copies, row_order, shuffled_subjects, steps, training_rows, training_share
    for script in (*of_rows, attacks, links):
        print(script.main())
