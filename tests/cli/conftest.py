from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import joblib
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from ens_plugin.cli import main
from tests.tracking.stores import tracking_to


class Outcome(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """What went to stderr, without its line breaks."""
        return " ".join(self.err.split())


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run commands in an empty directory, where no store is configured."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return Outcome(int(end.value.code or 0), *capfd.readouterr())

    with tracking_to(None):
        yield run


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two forests and the tables they were trained on, as a user would have it."""
    directory = tmp_path_factory.mktemp("workshop")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    joblib.dump(RandomForestClassifier(60, random_state=0).fit(X, y), directory / "cancer.joblib")
    X.assign(diagnosis=y).to_csv(directory / "cancer.csv", index=False)
    X.iloc[::-1].assign(diagnosis=y).to_parquet(directory / "cancer.parquet")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    forest = RandomForestRegressor(40, random_state=0).fit(X.to_numpy(), y.to_numpy())
    joblib.dump(forest, directory / "diabetes.joblib")
    X.assign(progression=y).to_csv(directory / "diabetes.csv", index=False)
    joblib.dump({"not": "a model"}, directory / "dict.joblib")
    return directory
