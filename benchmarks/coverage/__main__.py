"""Run every benchmark of how often intervals hold, one after the other."""

from __future__ import annotations

from benchmarks.coverage import comparisons, importance, members

if __name__ == "__main__":
    for script in (comparisons, importance, members):
        print(script.main())
