"""The figures of simulations that pages state are those that the benchmarks measured."""

from __future__ import annotations

import re

import pytest

from tests.docs.results import ROOT, cells, extremes, measured, methods, page, rows, section, values, whole

WIDTHS = ("one standard error", "two standard errors", "three standard errors")


@pytest.fixture(scope="module", name="methods")
def methods_text() -> str:
    return methods()


def test_the_error_of_even_sizes(methods: str) -> None:
    found = measured("hard_data.cells", "10 trees, rare second label: reported error less that of predict (points)")
    assert f"10 trees with a rare second label was {found} points off that of their predictions" in methods


def test_the_bias_of_margins(methods: str) -> None:
    bias = [
        abs(float(whole(row[1])))
        for row in rows("hard_data.scores")
        if len(row) == 4 and row[0].startswith("LightGBM") and row[0].endswith("bias at infinity (points)")
    ]
    assert f"at most {max(bias):.2f} points of bias at infinity (`benchmarks/hard_data/scores.py`)" in methods


def test_the_intervals_of_scores(methods: str) -> None:
    held = measured("hard_data.scores", "XGBoost, 1 % positives, 30 members: coverage at infinity (%)")
    assert (
        f"for XGBoost with 30 members, the 95 % interval at infinity held the error in {whole(held)} % of 20" in methods
    )


def test_members_that_differ(methods: str) -> None:
    some, more, none = (
        whole(measured("coverage.members", f"scale with sd {sd}: error of one member held (%)"))
        for sd in ("0.3", "0.6", "0")
    )
    assert (
        f"held the error in {some} % of 150 samples of 30 members whose scale has a logarithmic standard deviation of "
        f".3, in {more} % for .6, and in {none} % where members are alike"
    ) in methods
    assert "; 150 repetitions;" in section("coverage.members")
    bias, held = values("coverage.members", "bias at infinity"), values("coverage.members", "error at infinity held")
    assert f"gave biases of {extremes(bias)} points" in methods
    assert f"the interval at infinity held the error in {extremes(held, 0)} % of cases" in methods


def test_the_losses_with_long_tails(methods: str) -> None:
    found = {row[0]: row[1:] for row in rows("hard_data.losses") if len(row) == 6}
    tails = [
        float(row[1])
        for name, row in found.items()
        if name.startswith(("t2.5", "t3,", "lognormal", "1 % outliers")) and "weights" not in name
    ]
    assert f"held the error in {min(tails):.0f} to {max(tails):.0f} % of 60 forests each" in methods
    assert "; 60 repetitions;" in section("hard_data.losses")

    def both(noise: str, first: int = 200, second: int = 500) -> tuple[list[str], list[str]]:
        return found[f"{noise}, {first} rows"], found[f"{noise}, {second} rows"]

    for noise, words in (
        ("chi-square", "for chi-square noise"),
        ("lognormal target", "for a lognormal target"),
        ("t3", "for t3"),
        ("t2.5", "for t2.5"),
    ):
        few, many = both(noise)
        assert f"{few[0]} and {many[0]} % ({few[1]} and {many[1]}) {words}" in methods
    few, many = both("1 % outliers", 500, 1000)
    assert f"covers {few[0]} % ({few[1]}) with 500 rows and {many[0]} % ({many[1]}) with 1000" in methods
    few, many = both("normal")
    assert f"{few[-1]} times as wide as the normal interval with 200 rows and {many[-1]} times with 500" in methods


def test_the_sizes_by_agreement() -> None:
    text = (ROOT / "docs" / "methods" / "size.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| (digits|12 Gaussians) \| (\d+) \| (\S+ ± \S+) \| (\d+) \|$", text, re.MULTILINE)
    assert len(shown) == 4
    for data, trees, ratio, held in shown:
        about = f"{data}, {trees} trees"
        assert ratio == measured("hard_data.sizes", f"{about}: log2(recommended size / other trees')")
        ((_, found),) = [row for row in cells("hard_data.sizes", about) if len(row) == 2]
        assert held == found


def test_few_different_rows(methods: str) -> None:
    three, five, values_of_20 = (
        whole(measured("hard_data.cells", f"{name}: 95 % interval of the size holds it (%)"))
        for name in ("three binary features", "five binary features", "one feature of 20 values")
    )
    assert (
        f"held the size in {three} % of cases on three binary features, in {five} % on five and in {values_of_20} % on "
        "one feature of 20 values"
    ) in methods
    assert "; 60 repetitions;" in section("hard_data.cells")


def test_the_intervals_of_metrics(methods: str) -> None:
    mean = measured("hard_data.metrics", "interval holds the metric at infinity, mean of the cells (%)")
    worst = [
        row[1]
        for row in rows("hard_data.metrics")
        if row[0] == "the same, worst cell (noisy logistic, full depth: area_lost, 16 members) (%)"
    ]
    assert (
        f"held the metric at infinity in {mean} % of cases on average, and in {whole(worst[-1])} % in the worst"
        in methods
    )
    depth, full = (
        cells("hard_data.metrics", f"noisy logistic, {depth}: area_lost, 16 members")[0][-1]
        for depth in ("depth 5", "full depth")
    )
    assert f"by {depth} and {full} at infinity from 16 trees" in methods


def test_importance() -> None:
    script = "coverage.importance"
    smallest, largest = (
        measured(script, f"standard error over the spread, {which} column") for which in ("smallest", "largest")
    )
    text = page("explanations/importance.md")
    assert f"the standard error was {smallest} to {largest} times the spread" in text
    of_values, of_labels = (
        [whole(measured(script, f"{kind}: noise within {width} of 0 (%)")) for width in WIDTHS]
        for kind in ("values", "labels")
    )
    assert (
        f"within one, two and three standard errors of 0 in {of_values[0]}, {of_values[1]} and {of_values[2]} % of the "
        f"cases, with labels in {of_labels[0]}, {of_labels[1]} and {of_labels[2]} %"
    ) in text


def test_the_search_without_folds() -> None:
    text = page("how-to/search.md")
    times = measured("accuracy.oob_search", "seconds of five folds over seconds without folds, median")
    without, folds = (
        whole(measured("accuracy.oob_search", f"rank correlation with the test error, {which}, mean"))
        for which in ("without folds", "five folds")
    )
    assert f"The folds took {times} times as long (median)" in text
    assert f"The correlation was {without} without folds and {folds} with them" in text


def test_pruning() -> None:
    text = page("explanations/papers.md")
    problems = ("twonorm", "ringnorm", "circle", "spiral", "breast cancer", "digits")
    other, queried = (
        [float(whole(measured("learners.pruning", measure.format(problem)))) for problem in problems]
        for measure in (
            "{}, rule learned: labels other than the whole forest's (%)",
            "{}: members queried, learned / full",
        )
    )
    assert f"than the whole forest's for {extremes(other)} % of the rows" in text
    assert f'queries {extremes(queried)} times as many members as `"full"`' in text


def test_proofs_of_labels() -> None:
    text, script = page("explanations/papers.md"), "learners.certificate"
    votes = [row for row in rows(script) if len(row) == 8 and row[0].startswith("forest, ")]
    settled = [float(row[4].partition("; ")[2]) for row in votes]
    assert f'{extremes([float(row[6]) for row in votes])} times as many members as `"infinite"`' in text
    assert f"settles {extremes(settled, 1)} % of the rows" in text
    wrong = max(values(script, "rows settled wrongly, upper 95 % bound"))
    assert f"at most {wrong:.2f} % of them wrongly" in text


def test_prediction_intervals() -> None:
    text = page("explanations/prediction-intervals.md")
    held = values("accuracy.prediction_intervals", "coverage, ")
    assert f"Coverage was {extremes(held, 1)} %" in text
    ((_, quiet, noisy, *_),) = [
        row for row in cells("accuracy.prediction_intervals", "heteroscedastic") if len(row) == 5
    ]
    assert f"it was {quiet} % in the quiet half of the rows and {noisy} % in the noisy one" in text


def test_standard_errors() -> None:
    held = values("accuracy.standard_errors", "covered, ")
    for name in ("explanations/prediction-intervals.md", "how-to/uncertainty.md"):
        assert f"{extremes(held, 1)} %" in page(name)


def test_the_warnings_about_the_variance_over_training_sets() -> None:
    text = (ROOT / "ens_plugin" / "analysis" / "variance.py").read_text(encoding="utf-8")
    text = re.sub(r'"\s+f?"', "", text)
    bootstrap = [row for row in rows("hard_data.training_variance") if ", bootstrap," in row[0] and len(row) == 5]
    corrected, jackknife = ([float(row[place]) for row in bootstrap] for place in (-2, -1))
    assert f"({extremes(corrected)} times the truth was measured)" in text
    assert text.count(f"({extremes(jackknife)} times") == 2
    (large,) = [
        row[-2] for row in rows("hard_data.training_variance") if row[0].startswith("200 rows, 63%") and len(row) == 5
    ]
    assert f"({large} times the truth was measured at 63 %)" in text


def test_labels_in_fixed_numbers(methods: str) -> None:
    def bias(library: str, labels: str) -> tuple[str, str]:
        few, many = (
            measured("hard_data.label_shares", f"{library}, {n_rows} rows, labels {labels}: bias (points)")
            for n_rows in (60, 300)
        )
        return few, many

    few, many = bias("scikit-learn", "in equal numbers")
    assert f"it was {few} points at 60 rows and {many} at 300 for scikit-learn's forest" in methods
    few, many = bias("xgboost", "in equal numbers")
    assert f"and {few} and {many} for XGBoost's" in methods
    tossed = [*bias("scikit-learn", "tossed"), *bias("xgboost", "tossed")]
    assert "with labels tossed like coins {} and {}, and {} and {}.".format(*tossed) in methods


def test_differences_of_two_ensembles(methods: str) -> None:
    script = "coverage.comparisons"
    held = {row[0].removesuffix(": held (%)"): whole(row[1]) for row in rows(script) if row[0].endswith(": held (%)")}
    of_labels = [float(share) for name, share in held.items() if name.startswith("labels")]
    (repetitions,) = re.findall(r"; (\d+) repetitions;", section(script))
    assert f"(60 trees, 300 rows, {repetitions} training sets each)" in methods
    assert f"held the difference in {extremes(of_labels, 0)} % of cases for 0-1 errors" in methods
    depth, features, leaves = (
        held[f"values, Friedman 1: {pair}"]
        for pair in ("full trees and depth 4", "a third of the features", "full trees and leaves of 20")
    )
    assert (
        f"it was {depth} % where the depth differed, {features} % where the number of features differed, and "
        f"{leaves} % for full trees against leaves of 20 rows"
    ) in methods
    ratios = [row[-1] for row in rows(script) if len(row) == 5 and row[0].startswith("values")]
    assert "was then {}, {} and {} times the variance of the interval".format(*ratios) in methods


def test_differences_by_a_metric(methods: str) -> None:
    area, precision, f1, log_loss = (
        measured("metrics.gate", f"{metric}: fewer splits, interval holds the difference of the settings (%)")
        for metric in ("roc_auc", "average_precision", "f1", "neg_log_loss")
    )
    (repetitions,) = re.findall(r"; (\d+) repetitions;", section("metrics.gate"))
    assert f"on {3 * int(repetitions)} pairs of forests with fewer and with more splits" in methods
    assert (
        f"held {area} % of the differences of the settings by the area under the ROC curve, {precision} % by average "
        f"precision, {f1} % by F1 and {log_loss} % by the log loss"
    ) in methods


def test_differences_of_seeds(methods: str) -> None:
    called = {row[0]: row[1:] for row in rows("hard_data.seeds") if len(row) == 7}
    ten, thirty, hundred = (called[f"{n_trees} trees"] for n_trees in (10, 30, 100))
    assert f"was called worse in {ten[3]} % and better in {ten[4]} % of 500 pairs" in methods
    assert "; 100 repetitions;" in section("hard_data.seeds")
    assert (
        f"Worse and better are then {ten[0]} % and {ten[1]} % at 10 trees, {thirty[0]} and {thirty[1]} at 30, "
        f"{hundred[0]} and {hundred[1]} at 100"
    ) in methods


def test_the_errata_of_2004() -> None:
    mean, spread = (
        next(row for row in rows("papers.model_averaging_2004") if row[0].startswith(start) and len(row) == 4)
        for start in ("mean: printed", "sd: printed")
    )
    assert (
        f"they are exceeded in {whole(mean[3])} and {whole(spread[3])} % of the repetitions, not in {mean[2]} and "
        f"{spread[2]} %"
    ) in page("explanations/papers.md")
