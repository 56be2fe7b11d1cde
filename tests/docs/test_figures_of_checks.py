"""The figures of the checks of rows, and of the attacks, are those that the benchmarks measured."""

from __future__ import annotations

import re

import pytest

from tests.docs.results import ROOT, cells, listed, measured, methods, page, rows, section, signed, whole


@pytest.fixture(scope="module", name="methods")
def methods_text() -> str:
    return methods()


def test_copies(methods: str) -> None:
    script = "checks.copies"
    reported = whole(measured(script, "each row 5 times: out-of-bag error by scikit-learn (%)"))
    truth = whole(measured(script, "each row 5 times: error on fresh rows (%)"))
    assert f"scikit-learn's out-of-bag error was {reported} % where it was {truth} %" in methods
    few, few_bias, many, many_bias = (
        whole(measured(script, f"{share} % of the rows equal to another: {what}"))
        for share in (6, 50)
        for what in ("doubted (%)", "error out of bag less that on fresh rows (points)")
    )
    assert f"With 6 % of the rows equal to another, {few} % of tables were doubted, and their error was" in methods
    assert f"was {few_bias} points from that on fresh rows" in methods
    assert f"with half of them, {many} %, and {many_bias} points" in methods
    blank, drawn = (
        re.findall(rf"\| (\d+) tables with {kind}: taken for copies +\| +(\d+)", section(script))[0]
        for kind in ("blank records", "a label drawn again")
    )
    assert (
        f"Of {blank[0]} tables with blank records {blank[1]} were doubted, and of {drawn[0]} with a label drawn"
        in methods
    )
    assert f"with a label drawn again {drawn[1]}" in methods


def test_rows_augmented_by_noise(methods: str) -> None:
    ((n_tables, doubted),) = re.findall(
        r"\| (\d+) tables with noisy copies: doubted \(%\) +\| +([\d.]+)", section("checks.alike_rows")
    )
    assert f"Of {n_tables} tables in which each row has one to four copies with normal noise" in methods
    assert f"{doubted} % were doubted" in methods


def test_the_table_of_subjects() -> None:
    text = (ROOT / "docs" / "methods" / "alike-rows.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| (\d+) \| (\.\d+) \| (\d+ \| \d+ \| \d+) \|$", text, re.MULTILINE)
    found = [row for row in rows("checks.alike_rows") if " rows of each, change " in row[0]]
    assert len(found) == 9
    (number,) = {cell.split(" of ")[1] for row in found for cell in row[1:]}
    assert f"of {number} tables each (normal columns" in page("methods/alike-rows.md")
    assert shown == [
        (row[0].split()[0], row[0].split()[-1].lstrip("0"), " | ".join(cell.split()[0] for cell in row[1:]))
        for row in found
    ]


def test_oversamplers(methods: str) -> None:
    counts = [
        [int(number) for number in cell.split(" of ")]
        for name in ("SMOTE", "BorderlineSMOTE", "SVMSMOTE", "ADASYN")
        for row in cells("checks.alike_rows", name)
        for cell in row
    ]
    doubted, n_tables = (sum(count[place] for count in counts) for place in (0, 1))
    assert (
        f"Of {n_tables} tables made by SMOTE, BorderlineSMOTE, SVMSMOTE and ADASYN, shuffled and with 32 or 64 bits, "
        f"{doubted} were doubted"
    ) in methods


def test_rows_in_order(methods: str) -> None:
    counts = {row[0]: row[1].split(" of ") for row in rows("checks.row_order") if len(row) == 2 and " of " in row[1]}
    assert {total for name, (_, total) in counts.items() if not name.startswith("independent")} == {"20"}
    times = {name: doubted for name, (doubted, _) in counts.items()}
    assert (
        f"pairs of rows with a change of .3 were doubted {times['pairs of rows, change .3']} times of 20, triples "
        f"{times['triples of rows, change .3']} times, fives {times['fives of rows, change .3']} times, windows of 20 "
        f"values of a random walk {times['windows of 20 values of a random walk']} times, of an autoregression (.95) "
        f"{times['windows of 20 values of an autoregression (.95)']} times, and windows of 5 values "
        f"{times['windows of 5 values of a random walk']} times"
    ) in methods
    ordered = [row[0].split(" of ") for row in cells("checks.row_order", "independent rows") if len(row) == 1]
    doubted, n_forests = (sum(int(each[place]) for each in ordered) for place in (0, 1))
    assert f"of {n_forests} forests on independent rows" in methods
    assert f"the rows before and after doubted {doubted}" in methods


def test_the_labels_that_bags_leave_out(methods: str) -> None:
    found = [
        (row[0], float(whole(row[4])), float(row[3]))
        for row in rows("hard_data.labels")
        if len(row) == 7 and "±" in row[4]
    ]

    def bias(start: str) -> tuple[str, str]:
        return signed([value for name, value, _ in found if name.startswith(start)])

    assert "was {} to {} points with weights at the fit alone".format(*bias("weights at fit,")) in methods
    assert "and {} to {} where the same weights count here too".format(*bias("weights at fit and here,")) in methods
    balanced = signed([value for name, value, _ in found if name.startswith("balanced") and " 20 % positives" in name])
    assert "20 % positives it was {} to {}".format(*balanced) in methods
    held = measured("hard_data.labels", "95 % interval contains the error on fresh rows, all reports (%)")
    assert f"The intervals of all reports held the error in {whole(held)} % of cases" in methods


def test_subjects_in_random_order(methods: str) -> None:
    text = section("checks.shuffled_subjects")

    def found(name: str) -> tuple[str, str]:
        return re.findall(rf"\| {re.escape(name)} \(% of (\d+)\) +\| +([\d.]+)", text)[0]

    lists = ("first list", "second list", "third list", "fourth list")
    outside = [found(f"panels and series, {name}: outside, doubted")[1] for name in lists]
    large = [found(f"{name}: twice the stated error or more, doubted")[1] for name in lists]
    n_tables, filed = found("independent tables, in file order: doubted")
    shuffled = found("independent tables, in random order: doubted")[1]
    assert "{}, {}, {} and {} % were doubted".format(*outside) in methods
    assert "of those with twice the stated error or more {}, {}, {} and {} %".format(*large) in methods
    assert (
        f"Of {n_tables} independent tables, {filed} % were doubted in file order and {shuffled} % in random" in methods
    )


def test_the_rare_labels_of_balanced_forests(methods: str) -> None:
    held = measured("hard_data.rare_labels", "the same, reports that were refused for that (%)")
    assert f"held the error in {whole(held)} % of the reports on fewer than 3 members a row" in methods


def test_attacks() -> None:
    text = page("explanations/reliability.md")
    script = "checks.attacks"
    number = {row[0]: row[1:] for row in rows(script)}
    assert (
        f"{number['attacks with wrong rows'][0]} attacks (`benchmarks/checks/attacks.py`): {number['refused'][0]} "
        f"refused, {number['with a warning in the first lines'][0]} with a warning in the first lines, "
        f"{number['accepted within two half-widths of the truth'][0]} accepted within two half-widths of the truth, "
        f"{number['wrong rows that got past'][0]} past that."
    ) in text
    assert (
        f"Of {number['valid analyses'][0]} valid analyses {number['valid analyses that were refused'][0]} were refused"
    ) in text
    rounds, promotions = number["all"]
    past = number["rounds of gates: what contradicts the registry"][0]
    assert (
        f"{rounds} rounds on a registry in memory (`benchmarks/checks/attacks.py`), with {promotions} promotions: "
        f"{past} got past"
    ) in text
    (total, inputs_past) = re.findall(r"\| (\d+) hostile inputs: got past +\| +(\d+)", section(script))[0]
    kinds = ("custom", "policy", "report", "api", "file", "command")
    custom, policy, report, api, file, command = (number[kind][0] for kind in kinds)
    assert (
        f"{total} inputs (`benchmarks/checks/attacks.py`; custom ensembles {custom}, policies {policy}, reports "
        f"{report}, the API {api}, model files {file}, commands {command}): {inputs_past} got past"
    ) in text
    assert (
        f"{number['fits'][0]} fits of {number['kinds of models that were fitted'][0]} kinds of models "
        f"(`benchmarks/checks/attacks.py`): {number['fits with autologging that changed something'][0]} differed, "
        f"{number['runs FINISHED'][0]} runs FINISHED"
    ) in text


def test_training_rows_passed_as_held_out(methods: str) -> None:
    script = "checks.training_rows"
    ((samples, refused),) = re.findall(
        r"\| (\d+) samples of fresh rows: refused as training rows +\| +(\d+)", section(script)
    )
    assert f"With the rules above it was {refused} of {samples} samples" in methods
    many, few, iris = (
        whole(measured(script, f"{name} rows of the training, shuffled: refused (%)"))
        for name in ("breast cancer, 300", "breast cancer, 100", "iris, 100")
    )
    assert (
        f"the breast cancer data were refused in {many} % of cases, 100 of them in {few} %, and 100 of iris in {iris} %"
    ) in methods
    parts = {row[0]: row[1:] for row in rows(script) if len(row) == 5 and " of " in row[1]}
    total = parts["digits"][0].split()[-1]
    real, cancer, digits = (
        listed([cell.split()[0] for cell in parts[name]]) for name in ("ten real columns", "breast cancer", "digits")
    )
    assert (
        f"on ten real columns in {real} of {total} samples, on the breast cancer data in {cancer}, on the digits in "
        f"{digits} (forests"
    ) in page("explanations/reliability.md")
