"""Labels and containers of any kind, and the progress bar."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.analysis import AnalysisOptions, run_analysis
from ens_plugin.analysis import evidence as row_blocks
from ens_plugin.analysis.evidence import progress_bar
from ens_plugin.errors import DataMismatchError
from tests.forests import cancer, out_of_bag_mask, outputs_of


class TestCustomLabelsAndContainers:
    def test_label_that_is_never_predicted_is_simply_wrong(self) -> None:
        votes = np.random.default_rng(0).integers(0, 2, (30, 60))
        ensemble = CustomEnsemble(votes, None, aggregation="vote", classes=[0, 1, 2])
        target = np.repeat([0, 1, 2], 20)
        report = analyze(ensemble, None, target, data="holdout")
        assert report.bias_variance.member_error == pytest.approx((votes != target).mean())
        assert report.error_curve.asymptote > 1 / 3 - 0.05

    def test_vote_and_probability_of_one_are_the_same_rule(self) -> None:
        forest, X, y = cancer()
        outputs, in_bag = outputs_of(forest, X), ~out_of_bag_mask(forest, y.size)
        vote = CustomEnsemble(np.argmax(outputs, axis=2), in_bag, aggregation="vote")
        mean = CustomEnsemble(outputs, in_bag, aggregation="mean_proba")
        results = [analyze(model, None, y).metrics() for model in (vote, mean)]
        assert results[0] == pytest.approx(results[1], rel=1e-9)
        assert results[0] == pytest.approx(analyze(forest, X, y).metrics(), rel=1e-9)


class TestProgress:
    def test_every_block_is_reported_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(row_blocks, "BLOCK_BYTES", 1)
        totals: list[int] = []

        def progress(blocks: Any, total: int) -> Any:
            for block in blocks:
                totals.append(total)
                yield block

        model, X, y = cancer()
        run_analysis(model, X, y, AnalysisOptions(), progress=progress)
        assert totals == [3, 3, 3]


@pytest.mark.parametrize(
    ("columns", "remedy"),
    [(["d", "b"], r"rename or add the missing columns"), (["b", "a"], r"pass X\[model\.feature_names_in_\]")],
)
def test_columns_are_refused_with_a_remedy_that_works(columns: list[str], remedy: str) -> None:
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 3})
    y = np.arange(40) % 2
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    with pytest.raises(DataMismatchError, match=remedy):
        analyze(forest, X.set_axis(columns, axis=1), y)


def test_progress_is_silent_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress_bar([1, 2, 3], 3)) == [1, 2, 3]
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_on_a_terminal_once_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert list(progress_bar([1, 2], 2)) == [1, 2]
    assert terminal.getvalue() == ""
    monkeypatch.setattr("ens_plugin.analysis.evidence.DELAY_S", 0)
    assert list(progress_bar([1, 2], 2)) == [1, 2]
    assert "0/2" in terminal.getvalue()


def test_a_program_without_a_console_gets_its_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert list(progress_bar([1, 2], 2)) == [1, 2]
