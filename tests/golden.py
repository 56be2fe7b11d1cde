"""Digests of a few hundred results: equal before and after a change that moves code and changes no result.

``python -m tests.golden write FILE`` before the change, ``python -m tests.golden check FILE`` after it, both in the
same environment.  The digest of a report is of its JSON without the time and the versions, of its text and of the
scalars that MLflow gets; of a refusal, its class and message.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ens_plugin
from tests.adapters.cases import CASES

Results = Iterator[tuple[str, Callable[[], Any]]]

LABELS: tuple[dict[str, Any], ...] = (
    {"criterion": "error"}, {"criterion": "probability"}, {"criterion": "agreement"}, {"metric": "balanced_accuracy"},
    {"metric": "neg_log_loss"}, {"metric": "roc_auc_ovr"},
)  # fmt: skip
VALUES: tuple[dict[str, Any], ...] = (
    {"tolerance": 0.05}, {"metric": "neg_mean_absolute_error"}, {"metric": "r2"},
)  # fmt: skip
BOTH: tuple[dict[str, Any], ...] = (
    {}, {"random_state": 7}, {"interval_level": 0.8}, {"max_size": 101}, {"data": "holdout"},
    {"groups": "identical"}, {"tolerance": -1.0}, {"metric": "rmse"},
)  # fmt: skip


def digest(value: object) -> str:
    content = value.tobytes() if isinstance(value, np.ndarray) else str(value).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def lasting(content: Any) -> Any:
    """Return JSON without what differs from run to run, in the reports of several outputs too."""
    if isinstance(content, dict):
        return {name: lasting(value) for name, value in content.items() if name not in ("created", "versions")}
    return [lasting(value) for value in content] if isinstance(content, list) else content


def of_result(result: Any) -> str:
    if isinstance(result, np.ndarray):
        return digest(np.packbits(result))
    content = json.dumps(lasting(json.loads(result.to_json())), sort_keys=True)
    return digest(content) + digest(result) + digest(sorted(result.metrics()))


def results() -> Results:
    """Yield the name of each result, a report or a table of bags, and what computes it."""
    for case in CASES:
        model = case.fit()
        by_kind = VALUES if np.asarray(case.y).dtype.kind == "f" else LABELS
        for options in (*BOTH, *by_kind):
            yield f"{case.name} {options}", partial(ens_plugin.analyze, model, case.X, case.y, **options)
        yield f"{case.name} in_bag", partial(ens_plugin.in_bag, model, case.X, case.y)
        yield f"{case.name} other target", partial(ens_plugin.analyze, model, case.X, case.y[::-1])
        yield f"{case.name} few rows", partial(ens_plugin.analyze, model, case.X[:20], case.y[:20])


def found_digests() -> dict[str, str]:
    found = {}
    for name, result in results():
        try:
            found[name] = of_result(result())
        except Exception as error:  # what is refused, and how, is a result too
            found[name] = f"{type(error).__name__} {digest(error)}"
    return found


def main() -> None:
    """Write digests, or print which ones differ and exit with 1 if any does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["write", "check"])
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = found_digests()
    if options.verb == "write":
        options.file.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} results, {sum(' ' in value for value in found.values())} of them refusals")
        return
    known = json.loads(options.file.read_text())
    other = [name for name in sorted({*known, *found}) if known.get(name) != found.get(name)]
    print(f"{len(found)} results, {len(other)} differ", *other, sep="\n")
    sys.exit(bool(other))


if __name__ == "__main__":
    main()
