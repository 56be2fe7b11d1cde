"""The errors for boosters whose bags cannot be used, with what to do instead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.xgboost.document.model import Forest, TrainingParameters
from ens_plugin.core.validation import counted
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError

__all__ = [
    "check_settings",
    "lost_and_weak",
    "no_sampling",
    "not_found",
    "not_likely",
    "several_rounds",
    "too_few_draws",
    "too_weak",
]

HOLDOUT = 'pass {data="holdout"} with rows the model was not trained on'
GIVE_BACK = (
    "state how the booster was trained with booster.set_param({'seed': ..., 'subsample': ..., 'tree_method': ...}), or "
    "pickle boosters instead"
)


def check_settings(settings: TrainingParameters) -> None:
    """Raise BagError for settings with which the bags do not follow from the seed."""
    if settings.sampling_method != "uniform":
        raise BagError(
            f"This booster was trained with sampling_method={settings.sampling_method!r}: rows are drawn by their "
            f"gradients, so out-of-bag rows are not like the others. Train with sampling_method='uniform', or "
            f"{HOLDOUT}."
        )
    if not settings.device.startswith("cpu") or "gpu" in settings.updater:
        raise BagError(
            f"This booster was trained on device {settings.device!r}, whose row sampler differs and cannot be "
            f"repeated here. Train with device='cpu', or {HOLDOUT}."
        )
    if settings.process_type != "default":
        raise BagError(
            f"This booster was trained with process_type={settings.process_type!r}: its trees were refreshed, and "
            f"store the sums of other rows than those they grew on. Use the booster before the update, or {HOLDOUT}."
        )


def no_sampling() -> BagError:
    """Return the error for trees that were trained on every row."""
    return BagError(
        "This booster was trained with subsample=1: every tree was trained on every row, so no row is out of bag. "
        f"Train with subsample below 1 (0.632 is close to a bootstrap), or {HOLDOUT}."
    )


def not_found(
    forest: Forest, share: float, failed: NDArray[np.integer], settings_fit: bool, n_seeds: int
) -> DataMismatchError | BagError:
    """Return the error for trees whose leaf sums none of the tried draws gives."""
    settings = forest.settings
    which = _named(forest, failed)
    weights = (
        "Training weights and base margins count too: pass the weights as sample_weight, or the training "
        "xgboost.DMatrix, or xgboost.DMatrix(X, y, weight=...), as X."
    )
    if not 0 < share < 1:
        return DataMismatchError(
            "These are not the rows the model was trained on, as far as its trees show: they counted "
            f"{100 * share:.1f} % of the rows of X. Pass the exact training rows in training order. {weights} If these "
            "are the training rows, training reweighted them (sampling_method='gradient_based', which save_model "
            f"does not store), or the trees were refreshed on other rows: {HOLDOUT}."
        )
    if settings_fit:
        return DataMismatchError(
            f"These are not the rows the model was trained on, as far as its trees show: with seed={settings.seed} and "
            f"subsample={settings.subsample:g}, the rows of X drawn for {which} do not give the sums in its leaves. "
            f"Pass the exact training rows in training order. {weights} If other training ran in the same process, "
            "train the booster in a process of its own and pickle it. If it was trained with device='cuda', whatever "
            f"its device is now, its rows cannot be drawn again. For these and other rows, {HOLDOUT}."
        )
    return BagError(
        f"The rows drawn for {which} are not known. The trees hold {100 * share:.1f} % of the rows, but the booster "
        f"states subsample={settings.subsample:g}, seed={settings.seed}. Either X is not the training rows in training "
        f"order, or the booster lost its settings, as after save_model and load_model. None of the first {n_seeds} "
        "seeds (fewer with tree_method='exact', and where many agree with one shallow tree) gives these trees. Pass "
        f"the exact training rows, and {GIVE_BACK}. {weights} A booster trained on a GPU, on several machines or with "
        f"gradient_based sampling cannot be redrawn: {HOLDOUT}."
    )


def not_likely(
    forest: Forest, share: float, n_rows: int, failed: NDArray[np.integer], settings_fit: bool
) -> DataMismatchError | BagError:
    """Return the error for rows on a cluster, where only the likely draws are tried."""
    settings, which = forest.settings, _named(forest, failed)
    if not 0 < share < 1:
        found = f"its trees counted {100 * share:.1f} % of {counted(n_rows, 'row')} of weight 1"
    else:
        found = (
            f"with seed={settings.seed} and subsample={settings.subsample:g}, the rows drawn for {which} do not give "
            "the sums in its leaves"
        )
    remedy = (
        "Each row must have its own position in training order. Training weights and base margins are not known on a "
        f"cluster: analyze such a booster on one machine with ens_plugin.analyze, or {HOLDOUT}."
    )
    if settings_fit or not 0 < share < 1:
        return DataMismatchError(
            f"These are not the rows the model was trained on, as far as it shows: {found}. {remedy}"
        )
    return BagError(
        f"The rows drawn for {which} are not known: {found}. The trees hold {100 * share:.1f} % of the rows, so the "
        "booster lost its settings, as after save_model and load_model. Only ens_plugin.analyze, on one machine, "
        "searches for its seed. On a cluster, state how it was trained with booster.set_param({'seed': ..., "
        f"'subsample': ..., 'tree_method': ..., 'reg_lambda': ...}}), or pickle boosters instead. {remedy}"
    )


def several_rounds(n_rounds: int, n_parallel: int) -> UnsupportedModelError:
    """Return the error for a booster of several rounds, with the number of parallel trees in each."""
    last = (
        "Out-of-bag rows do not show how many of its trees the last round needs either: a row that is out of "
        "bag for a tree of the last round trained the rounds before. "
        if n_parallel > 1
        else ""
    )
    of_each = f" of {n_parallel} parallel trees" if n_parallel > 1 else ""
    return UnsupportedModelError(
        f"This booster was trained in {n_rounds} rounds{of_each}: the trees of each round correct those of the rounds "
        f"before, so no error curve over sizes describes them and none can be left out. {last}Train one round "
        "(num_boost_round=1, or n_estimators=1) with num_parallel_tree=100 or more, subsample below 1 and "
        "learning_rate=1. ens_plugin.in_bag returns the bags of any number of rounds."
    )


def _named(forest: Forest, failed: NDArray[np.integer]) -> str:
    return f"tree {failed[0]}" + (f" and {failed.size - 1} more of {len(forest.trees)}" if failed.size > 1 else "")


def too_weak(chance: float, allowed: float, n_trees: int) -> BagError:
    """Return the error for trees too small to distinguish a right bag from a wrong one."""
    return BagError(
        f"Bags were found that agree with {'the only tree' if n_trees == 1 else f'all {n_trees} trees'}, but so few "
        f"and small trees would agree with wrong ones with a chance of up to {chance:.2g} ({allowed:g} is allowed). "
        f"Train more or deeper trees, or {HOLDOUT}."
    )


def lost_and_weak(chance: float, allowed: float, settings: TrainingParameters) -> BagError:
    """Return the error for trees too small to find again the seed that a booster has lost."""
    return BagError(
        f"The rows drawn for the trees are not known. The booster states subsample={settings.subsample:g}, "
        f"seed={settings.seed}, which its trees contradict, as after save_model and load_model. Trees so few and small "
        f"agree with the draws of many seeds (with a chance of up to {min(chance, 1.0):.2g}; {allowed:g} is allowed). "
        f"Either {GIVE_BACK}, or train more or deeper trees, or {HOLDOUT}."
    )


def too_few_draws(chance: float, allowed: float, n_trees: int, n_draws: int) -> BagError:
    """Return the error for parallel trees that share too few draws to distinguish a right one from a wrong one."""
    return BagError(
        f"Parallel trees of tree_method='approx' share one draw of rows, so the {n_trees} trees of this booster were "
        f"grown on {counted(n_draws, 'draw')}. Rows were found that agree with all of them, but "
        f"trees so small would agree with wrong ones with a chance of up to {chance:.2g} ({allowed:g} is allowed). "
        f"Train with tree_method='hist', which draws rows for every tree, or deeper trees, or {HOLDOUT}."
    )
