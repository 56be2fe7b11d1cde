"""Processor time of an analysis by stage: each function of a stage is timed, less the stages that it calls."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from importlib import import_module
from typing import Any
from unittest.mock import patch

REST = "the rest"
ANALYSIS, CORE = "ens_plugin.analysis", "ens_plugin.core"
# A function stands as module:name, a method as module:class.name; of libraries that are not loaded, none is timed.
STAGES: Mapping[str, Sequence[str]] = {
    "reading the model": ("ens_plugin.adapters.registry:find_adapter",),
    "checking rows and y; bags and their proof": (f"{ANALYSIS}.rows:read_rows",),
    "finding leaves": (
        "sklearn.tree:BaseDecisionTree.apply",
        "lightgbm:Booster.predict",
        "xgboost:Booster.predict",
    ),
    "outputs of the members": (f"{ANALYSIS}.evidence:BlockReader._block",),
    "tally": (f"{ANALYSIS}.analyze:tally_model_rows",),
    "row model and its draws": (f"{ANALYSIS}.labels:draw_labels",),
    "curves of the draws": (
        f"{CORE}.label_draws:LabelDraws.errors",
        f"{CORE}.label_draws:LabelDraws.changes",
    ),
    "averages over subsets": (
        f"{CORE}.sample:rates_of_subsets",
        f"{CORE}.error_curve:anchor_models",
    ),
    "intervals": (
        f"{CORE}.label_draws:LabelDraws.sd",
        f"{CORE}.label_draws:LabelDraws.covariance",
        f"{CORE}.jackknife:left_out_sd",
        f"{ANALYSIS}.labels:algorithmic_sd",
        f"{ANALYSIS}.curves:algorithmic_sd",
    ),
    "errors by label": (f"{ANALYSIS}.labels:label_errors",),
    "size by the Brier score": (f"{ANALYSIS}.sizes:probability_size",),
    "checks of the evidence": (
        f"{ANALYSIS}.rows:compare_with_stored",
        f"{ANALYSIS}.weights:row_shares",
    ),
}


class StageClock:
    """Seconds of processor time by stage.

    Attributes
    ----------
    seconds : dict of str to float
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a block for a stage, and not for the stage around it."""
        self._charge()
        self._open.append(name)
        try:
            yield
        finally:
            self._charge()
            self._open.pop()

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time counts for a stage."""

        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            with self.stage(stage):
                return function(*args, **options)

        return call

    def _charge(self) -> None:
        now = time.process_time()
        if self._open:
            name = self._open[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


@contextmanager
def clocked() -> Iterator[StageClock]:
    """Time the stages of the analyses within the block, which must run in one thread."""
    clock = StageClock()
    # A module that was imported within the block would keep the timed functions.
    import_module(f"{ANALYSIS}.analyze")
    with ExitStack() as stack:
        for stage, places in STAGES.items():
            for place in places:
                _replace(stack, place, partial(clock.timed, stage))
        stack.enter_context(clock.stage(REST))
        yield clock


def _replace(stack: ExitStack, place: str, change: Callable[[Any], Any]) -> None:
    """Replace a function wherever it was imported to, or a method of a class, until the stack is closed."""
    module, _, name = place.partition(":")
    if not module.startswith("ens_plugin") and module.partition(".")[0] not in sys.modules:
        return
    owner: Any = import_module(module)
    if "." in name:
        cls, _, method = name.partition(".")
        owner = getattr(owner, cls)
        stack.enter_context(patch.object(owner, method, change(getattr(owner, method))))
        return
    function = getattr(owner, name)
    timed = change(function)
    for holder in [found for key, found in sys.modules.items() if key.startswith("ens_plugin")]:
        if vars(holder).get(name) is function:
            stack.enter_context(patch.object(holder, name, timed))
