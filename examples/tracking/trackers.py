"""Log one report to every tracker that is installed, and to one of your own.

It works in a folder of its own, without a server or an account, and prints what each tracker left there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin


class Printer:
    """A tracker of one's own: these four methods are all that is needed."""

    def log_figure(self, name: str, path: Path) -> None:
        print(f"  figure  {name}")

    def log_file(self, name: str, path: Path) -> None:
        print(f"  file    {name}")

    def log_curve(self, curve: Mapping[str, Mapping[int, float]]) -> None:
        for name, values in curve.items():
            print(f"  curve   {name} at {len(values)} sizes from {min(values)} to {max(values)}")

    def log_scalars(self, scalars: Mapping[str, float]) -> None:
        print(f"  scalars {', '.join(scalars)}")


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(200, random_state=0).fit(X, y)
    report = ens_plugin.analyze(forest, X, y)

    print("A tracker of one's own")
    ens_plugin.log_report(report, tracker=Printer())
    for name in ("mlflow", "wandb", "tensorboard", "dvclive"):
        try:
            place = ens_plugin.log_report(report, tracker=name)
        except ens_plugin.errors.InputError as error:
            print(f"{name} was skipped: {error}")
            continue
        print(f"{name}: {place}")
    left = {path.relative_to(Path.cwd()).parts[0] for path in Path.cwd().rglob("*") if path.is_file()}
    print("Left in this folder:", ", ".join(sorted(left)))


if __name__ == "__main__":
    # Weights & Biases keeps the run on this machine; `wandb sync` would upload it.
    os.environ["WANDB_MODE"] = "offline"
    before = Path.cwd()
    with TemporaryDirectory(prefix="trackers-") as folder:
        os.chdir(folder)
        try:
            main()
        finally:
            os.chdir(before)
