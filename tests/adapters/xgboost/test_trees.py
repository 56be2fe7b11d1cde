"""XGBoost's parallel trees: what the shared harness does not test."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax

import ens_plugin
from ens_plugin.errors import BagError, DataMismatchError, InputError

xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")

from ens_plugin.adapters.xgboost.bags import (  # noqa: E402
    Guess,
    RowSampler,
    evidence_of,
    first_outputs,
    generator_outputs,
    log_chance,
)
from ens_plugin.adapters.xgboost.forest import Forest  # noqa: E402
from ens_plugin.adapters.xgboost.rows import Rows  # noqa: E402
from ens_plugin.adapters.xgboost.target import Hessians  # noqa: E402
from ens_plugin.adapters.xgboost.trees import XGBoostTreesAdapter  # noqa: E402
from tests.adapters.xgboost.xgboost_cases import (  # noqa: E402
    BINARY,
    FOREST,
    MULTI,
    X2,
    X3,
    XR,
    Y2,
    Y3,
    YR,
    N,
    as_mask,
    check_counts,
    redrawn,
    train,
)


def reloaded(booster: Any, tmp_path: Any) -> Any:
    booster.save_model(tmp_path / "model.ubj")
    return xgboost.Booster(model_file=tmp_path / "model.ubj")


# ---- generator


def test_outputs_of_many_seeds_are_those_of_each() -> None:
    seeds = np.array([0, 5, 12345, 2**32 - 1])
    expected = [np.random.RandomState(s).randint(0, 2**32, 2, dtype=np.uint32).tolist() for s in seeds]
    assert first_outputs(seeds).tolist() == expected
    assert [generator_outputs(int(s), 0, 2).tolist() for s in seeds] == expected


@pytest.mark.parametrize("share", [0.05, 0.5, 0.632, 0.99])
def test_masks_are_those_of_the_definition(share: float) -> None:
    words = np.array([1, 77, 2**32 - 1], dtype=np.uint64)
    mask = RowSampler(300, share).from_words(words)
    for word, own in zip(words.tolist(), mask, strict=True):
        x, expected = word, []
        for _ in range(300):
            x = 16807 * x % 2**63
            expected.append((x - 1) / 2**63 < float(np.float32(share)))
        assert own.tolist() == expected


# ---- leaves


@pytest.mark.parametrize("together", [7, 256])
@pytest.mark.parametrize("depth", [1, 9])
def test_leaves_and_values_are_the_library_s_own(depth: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few trees at once, too."""
    monkeypatch.setattr("ens_plugin.adapters.xgboost.forest.TREES_TOGETHER", together)
    booster = train({**MULTI, "max_depth": depth, "min_child_weight": 0}, X3, Y3, rounds=2)
    expected = booster.predict(xgboost.DMatrix(X3), pred_leaf=True).reshape(N, -1).T
    forest, rows = Forest(booster), Rows(X3, booster)
    for trees in (range(forest.n_trees), [7, 8, 9, 3, 50]):
        found = zip(trees, forest.reader.leaves(rows, trees), forest.reader.values(rows, trees), strict=True)
        for tree, leaves, values in found:
            nodes = np.flatnonzero(forest.of_tree(forest.is_leaf, tree))
            np.testing.assert_array_equal(nodes[leaves], expected[tree])
            np.testing.assert_array_equal(forest.leaf_values(tree)[leaves], values)


# ---- bags of any number of rounds


@pytest.mark.parametrize("options", [{}, BINARY, MULTI, {"objective": "count:poisson"}], ids=str)
def test_bags_of_several_rounds(options: dict[str, Any]) -> None:
    y = Y3 > 0 if options is BINARY else Y3
    booster = train({**options, "learning_rate": 0.3}, X3, y, rounds=3)
    n_trees = 3 * 20 * (3 if options is MULTI else 1)
    np.testing.assert_array_equal(ens_plugin.in_bag(booster, X3), as_mask(redrawn(3, n_trees, N, 0.6)))


@pytest.mark.slow
def test_training_weights_come_with_the_matrix() -> None:
    weight = np.random.default_rng(0).integers(0, 3, N).astype(float)
    booster = train(BINARY, weight=weight)
    expected = as_mask(redrawn(3, 20, N, 0.6))
    np.testing.assert_array_equal(ens_plugin.in_bag(booster, xgboost.DMatrix(X2, weight=weight), Y2), expected)
    with pytest.raises((BagError, DataMismatchError), match="Training weights"):
        ens_plugin.in_bag(booster, X2)


def test_base_margin_comes_with_the_matrix() -> None:
    start = np.random.default_rng(0).normal(size=N)
    booster = train(BINARY, base_margin=start)
    matrix = xgboost.DMatrix(X2, Y2, base_margin=start)
    np.testing.assert_array_equal(ens_plugin.in_bag(booster, matrix, Y2), as_mask(redrawn(3, 20, N, 0.6)))
    assert ens_plugin.analyze(booster, matrix, Y2).bags == "proved"


def test_scale_pos_weight_needs_the_labels() -> None:
    booster = train({**BINARY, "scale_pos_weight": 3.0})
    expected = as_mask(redrawn(3, 20, N, 0.6))
    np.testing.assert_array_equal(ens_plugin.in_bag(booster, X2, Y2), expected)
    with pytest.raises(InputError, match="pass y"):
        ens_plugin.in_bag(booster, X2)


# ---- search and recovery


@pytest.mark.parametrize(("seed", "share"), [(0, 0.632), (7, 0.5), (4321, 0.85)])
def test_seed_and_share_lost_by_saving_are_recovered(tmp_path: Any, seed: int, share: float) -> None:
    booster = train({**BINARY, "seed": seed, "subsample": share})
    loaded = reloaded(booster, tmp_path)
    assert Forest(loaded).settings.subsample == 1
    np.testing.assert_array_equal(ens_plugin.in_bag(loaded, X2), as_mask(redrawn(seed, 20, N, share)))


@pytest.mark.slow
def test_large_seed_lost_by_saving_can_be_given_back(tmp_path: Any) -> None:
    loaded = reloaded(train({**BINARY, "seed": 2_000_000_011}), tmp_path)
    with pytest.raises(BagError, match="set_param"):
        ens_plugin.in_bag(loaded, X2)
    loaded.set_param({"seed": 2_000_000_011, "subsample": 0.6})
    np.testing.assert_array_equal(ens_plugin.in_bag(loaded, X2), as_mask(redrawn(2_000_000_011, 20, N, 0.6)))


def test_exact_method_lost_by_saving_is_recovered(tmp_path: Any) -> None:
    booster = train({**BINARY, "tree_method": "exact", "seed": 12})
    mask = ens_plugin.in_bag(booster, X2)
    outputs = np.random.RandomState(12).randint(0, 2**32, 2 * N, dtype=np.uint32).astype(float)
    np.testing.assert_array_equal(mask[0], (outputs[::2] + outputs[1::2] * 2.0**32) / 2.0**64 < np.float32(0.6))
    np.testing.assert_array_equal(ens_plugin.in_bag(reloaded(booster, tmp_path), X2), mask)


@pytest.mark.parametrize(
    ("method", "depth", "share"),
    [
        ("hist", 2, 0.632),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("hist", 1, 0.5), ("exact", 3, 0.8), ("exact", 2, 0.5))
        ),
    ],
)
def test_draws_of_small_trees_that_other_seeds_give_too_are_recovered(
    method: str, depth: int, share: float, tmp_path: Any
) -> None:
    """Of few rows and leaves, many wrong draws give the sums of one tree: the trees after it decide."""
    few = slice(0, 200)
    options = {"tree_method": method, "max_depth": depth, "subsample": share, "seed": 57, "alpha": 0.5}
    booster = train({**BINARY, **options}, X2[few], Y2[few])
    mask = ens_plugin.in_bag(booster, X2[few], Y2[few])
    np.testing.assert_array_equal(ens_plugin.in_bag(reloaded(booster, tmp_path), X2[few], Y2[few]), mask)


def test_usual_share_of_few_rows_is_recovered(tmp_path: Any) -> None:
    """With a hundred rows, more shares of three digits are near the counted one than are tried."""
    few = slice(0, 100)
    for seed in (1, 4, 6):
        booster = train({**BINARY, "num_parallel_tree": 10, "subsample": 0.632, "seed": seed}, X2[few], Y2[few])
        mask = ens_plugin.in_bag(booster, X2[few])
        np.testing.assert_array_equal(ens_plugin.in_bag(reloaded(booster, tmp_path), X2[few]), mask)


@pytest.mark.slow
def test_seed_lost_of_trees_too_small_to_find_it_can_be_given_back(tmp_path: Any) -> None:
    few = slice(0, 40)
    options = {"tree_method": "exact", "max_depth": 1, "subsample": 0.5, "seed": 957, "num_parallel_tree": 30}
    booster = train(options, XR[few], YR[few])
    mask = ens_plugin.in_bag(booster, XR[few])
    loaded = reloaded(booster, tmp_path)
    with pytest.raises(BagError, match=r"which its trees contradict.*set_param"):
        ens_plugin.in_bag(loaded, XR[few])
    loaded.set_param({"seed": 957, "subsample": 0.5, "tree_method": "exact"})
    np.testing.assert_array_equal(ens_plugin.in_bag(loaded, XR[few]), mask)


def test_outputs_far_on_are_those_of_the_generator() -> None:
    generator = np.random.RandomState(2**32 - 1)
    outputs = generator.randint(0, 2**32, 30_000, dtype=np.uint32)
    for start, count in ((0, 1), (7, 3), (9_999, 1), (9_999, 2), (20_000, 10_000)):
        np.testing.assert_array_equal(generator_outputs(2**32 - 1, start, count), outputs[start : start + count])


def test_training_that_was_continued_is_refused() -> None:
    first = train({"seed": 3}, XR, YR)
    options = {**FOREST, "seed": 9}
    second = xgboost.train(options, xgboost.DMatrix(XR, YR), num_boost_round=1, xgb_model=first.copy())
    with pytest.raises(DataMismatchError, match="was continued or interrupted"):
        ens_plugin.in_bag(second, XR)


def test_trained_in_another_thread() -> None:
    matrix = xgboost.DMatrix(X2, Y2)
    booster = xgboost.Booster(FOREST, [matrix])
    thread = threading.Thread(target=lambda: booster.update(matrix, 0))
    thread.start()
    thread.join()
    mask, leaves = ens_plugin.in_bag(booster, X2), booster.predict(matrix, pred_leaf=True)
    check_counts(booster, mask, leaves)


# ---- proof


def wrong_masks() -> dict[str, Any]:
    right = as_mask(redrawn(3, 20, N, 0.6))
    one_row = right.copy()
    one_row[13, 100] ^= True
    return {
        "seed off by one": as_mask(redrawn(4, 20, N, 0.6)),
        "trees shifted": np.roll(right, 1, axis=0),
        "rows shifted": np.roll(right, 1, axis=1),
        "another share": as_mask(redrawn(3, 20, N, 0.61)),
        "one row changed": one_row,
    }


@pytest.mark.parametrize("name", list(wrong_masks()))
def test_wrong_masks_do_not_pass(name: str) -> None:
    booster = train(BINARY)
    forest, rows = Forest(booster), Rows(X2, booster)
    evidence = list(evidence_of(forest, rows, Hessians.of(forest, rows, None), list(range(20))))
    right = as_mask(redrawn(3, 20, N, 0.6))
    assert all(own.accepts(right[own.tree]) for own in evidence)
    passed = np.array([own.accepts(wrong_masks()[name][own.tree]) for own in evidence])
    assert not passed.all()
    if name == "one row changed":
        assert np.flatnonzero(~passed).tolist() == [13]


@pytest.mark.slow
def test_bound_on_a_false_match_holds_for_random_masks() -> None:
    """Of 4000 random masks, the share that passes one stump is at most the bound plus 4 standard errors."""
    booster = train({"num_parallel_tree": 4000, "max_depth": 1, "max_bin": 4}, XR, YR)
    forest, rows = Forest(booster), Rows(XR, booster)
    tosses = np.random.default_rng(0).random((4000, N)) < 0.6
    evidence = list(evidence_of(forest, rows, Hessians.of(forest, rows, None), list(range(4000))))
    bound = float(np.mean([np.exp(log_chance(own.visible, 0.6)) for own in evidence]))
    passed = float(np.mean([own.accepts(toss) for own, toss in zip(evidence, tosses, strict=True)]))
    assert 0 < passed <= bound + 4 * np.sqrt(bound / 4000)


def test_trees_too_small_to_prove_anything_are_refused() -> None:
    booster = train({"num_parallel_tree": 2, "max_depth": 1}, XR, YR)
    with pytest.raises(BagError, match="agree with wrong ones"):
        ens_plugin.in_bag(booster, XR)


def test_chance_counts_the_guesses_and_shared_draws_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chances = []
    original = Guess.chance
    monkeypatch.setattr(Guess, "chance", lambda *a: chances.append(original(*a)) or chances[-1])
    for method in ("approx", "hist"):
        ens_plugin.in_bag(train({"tree_method": method}, XR, YR), XR)
    assert chances[1] < chances[0] ** 2


# ---- members of several classes


def test_small_probabilities_of_many_trees_are_the_boosters() -> None:
    """The rounding of a sum of 240 trees is no difference, although no probability exceeds a few percent."""
    rng = np.random.default_rng([3, 3000])
    y = (rng.random(3000) < 0.01).astype(np.int64)
    X = rng.standard_normal((3000, 8))
    X[y == 1, :3] += 1.3
    X[y == 1, 3] *= 2
    model = xgboost.XGBRFClassifier(
        n_estimators=600,
        subsample=0.632,
        colsample_bynode=0.6,
        max_depth=6,
        tree_method="hist",
        random_state=3,
        n_jobs=1,
    ).fit(X, y)
    assert ens_plugin.analyze(ens_plugin.truncate(model, 240), X, y).n_members == 240


def test_each_row_meets_its_out_of_bag_trees_once() -> None:
    booster = train(MULTI, X3, Y3)
    adapter = XGBoostTreesAdapter(booster)
    features = adapter.prepare(X3)
    bags = adapter.bags(X3, features, Y3)
    outputs, is_oob = adapter.block(features, bags, slice(0, N))
    out_of_bag = ~as_mask(redrawn(3, 60, N, 0.6)).reshape(3, 20, N)
    by_class = adapter.outputs(features)
    np.testing.assert_array_equal(is_oob.sum(axis=0), out_of_bag.sum(axis=1).min(axis=0))
    for row in range(N):
        for label in range(3):
            own = outputs[is_oob[:, row], row, label]
            allowed = by_class[out_of_bag[label, :, row], row, label]
            np.testing.assert_array_equal(own, allowed[: own.size])


def test_held_out_rows_get_the_library_s_own_probabilities() -> None:
    booster = train(MULTI, X3[:100], Y3[:100])
    adapter = XGBoostTreesAdapter(booster)
    outputs, is_oob = adapter.block(adapter.prepare(X3[100:]), None, slice(0, N - 100))
    assert is_oob.all()
    expected = booster.predict(xgboost.DMatrix(X3[100:]))
    np.testing.assert_allclose(softmax(outputs.mean(axis=0), axis=1), expected, atol=1e-6)
    np.testing.assert_allclose(adapter.inverse_link(outputs.mean(axis=0)), expected, atol=1e-6)
