"""Ways to have a version judged by what is not about it, or cannot be."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import mlflow

from tests.registry.registry import Version

__all__ = ["mislead"]

Content = dict[str, Any]


def mislead(client: mlflow.MlflowClient, version: Version, rng: random.Random) -> None:
    """Forge, garble or delete the report that was logged for a version."""
    rng.choice((_forge, _forge, _forge, _garble, _delete))(client, version, rng)


def _file(client: mlflow.MlflowClient, version: Version) -> Path:
    uri = client.get_run(version.run_id).info.artifact_uri
    return Path(unquote(urlsplit(uri).path)) / "ensemble" / "report.json"


def _forge(client: mlflow.MlflowClient, version: Version, rng: random.Random) -> None:
    path = _file(client, version)
    content = json.loads(path.read_text(encoding="utf-8"))
    rng.choice(FORGERIES)(content, rng)
    path.write_text(json.dumps(content), encoding="utf-8")


def _garble(client: mlflow.MlflowClient, version: Version, rng: random.Random) -> None:
    path = _file(client, version)
    text = path.read_bytes()
    cut = rng.randrange(len(text))
    path.write_bytes(rng.choice((text[:cut], b"", b"[" * 100_000, text + text, bytes(rng.randbytes(200)), b'"x"')))


def _delete(client: mlflow.MlflowClient, version: Version, rng: random.Random) -> None:
    if rng.random() < 0.5:
        client.delete_run(version.run_id)
    else:
        _file(client, version).unlink()


def _set(path: str, values: Callable[[random.Random], Any]) -> Callable[[Content, random.Random], None]:
    *parents, last = path.split(".")

    def change(content: Content, rng: random.Random) -> None:
        place = content
        for key in parents:
            place = place[key]
        place[last] = values(rng)

    return change


def _scale(path: str, factors: Callable[[random.Random], float]) -> Callable[[Content, random.Random], None]:
    def change(content: Content, rng: random.Random) -> None:
        curve, factor = content["error_curve"], factors(rng)
        curve[path] = [value * factor for value in curve[path]]

    return change


def _one(path: str, values: Callable[[random.Random], Any]) -> Callable[[Content, random.Random], None]:
    def change(content: Content, rng: random.Random) -> None:
        values_of = content["error_curve"][path]
        values_of[rng.randrange(len(values_of))] = values(rng)

    return change


def _swap(content: Content, rng: random.Random) -> None:
    curve = content["error_curve"]
    curve["lower"], curve["upper"] = curve["upper"], curve["lower"]


def _empty(content: Content, rng: random.Random) -> None:
    content["error_curve"].update(sizes=[], error=[], lower=[], upper=[])


def _shorten(content: Content, rng: random.Random) -> None:
    curve = content["error_curve"]
    key = rng.choice(("sizes", "error", "lower", "upper"))
    curve[key] = curve[key][: rng.randrange(len(curve[key]))]


def _shuffle(content: Content, rng: random.Random) -> None:
    rng.shuffle(content["error_curve"]["sizes"])


def _doubt(content: Content, rng: random.Random) -> None:
    sentence = "Half of the rows are copies."
    content["basis"]["findings"] = [{"code": "copies", "kind": "doubt", "sentence": sentence, "numbers": {}}]


def _drop(content: Content, rng: random.Random) -> None:
    kept = ("basis",)
    del content[rng.choice([key for key in content if key not in kept])]


NOT_A_NUMBER = ("many", [], {}, True, "Infinity", "-Infinity")
FORGERIES: tuple[Callable[[Content, random.Random], None], ...] = (
    _swap, _empty, _shorten, _shuffle, _doubt, _drop,
    _set("n_rows", lambda rng: rng.choice((0, -1, -rng.randrange(1, 10**9), 1.5, 10**30, None, True))),
    _set("n_members", lambda rng: rng.choice((0, -1, 2**64, 0.5, None, "200"))),
    _set("mean_oob_members", lambda rng: rng.choice((-1.0, -1e9, "few", "Infinity" * 2))),
    _set("rows_without_oob", lambda rng: -rng.randrange(1, 100)),
    _set("algorithmic_sd", lambda rng: rng.choice((-1.0, "Infinity", "-Infinity", [], 10**400))),
    _set("model", lambda rng: rng.choice(("\ud800", 3, None, ["x"]))),
    _set("task", lambda rng: rng.choice(("", "clustering", None, 1))),
    _set("bags", lambda rng: rng.choice(("holdout", None, 3))),
    _set("schema_version", lambda rng: rng.choice((0, 2, "1", None, -1, 1.0, True))),
    _set("error_curve", lambda rng: rng.choice((None, [], {}, "curve", 1))),
    _set("error_curve.interval_level", lambda rng: rng.choice((0.01, rng.uniform(0, 0.94), 0, 1, -1, 2, None, "0.95"))),
    _set("error_curve.asymptote_interval", lambda rng: rng.choice(([1, 0], [0.5, 0.4], [0.1], [0, 0, 0], ["a", "b"]))),
    _set("error_curve.asymptote", lambda rng: rng.choice((-1.0, 2.0, "Infinity", *NOT_A_NUMBER))),
    _set("error_curve.check", lambda rng: rng.choice((-1.0, "x", []))),
    _set("error_curve.ties_to", lambda rng: rng.choice((-1.0, "-Infinity", None, []))),
    _set("recommendation.size", lambda rng: rng.choice((0, -1, 10**12, 1.5, "59"))),
    _set("recommendation.max_size", lambda rng: rng.choice((0, -1, 1, 2.5, None))),
    _set("recommendation.agreement", lambda rng: rng.choice((-0.1, 1.1, 99.0, *NOT_A_NUMBER))),
    _set("recommendation.tolerance", lambda rng: rng.choice((None, -1, "Infinity", *NOT_A_NUMBER))),
    _set("recommendation.interval", lambda rng: rng.choice(([0, 5], [9, 3], [-1, None], [1], [None, None], "x"))),
    _set("recommendation.sizes", lambda rng: rng.choice(([], [1], [0], "x", None))),
    _set("bias_variance.bias", lambda rng: rng.choice((-0.5, 1.5, *NOT_A_NUMBER))),
    _set("bias_variance.member_variance", lambda rng: rng.choice((-0.5, 1.5, *NOT_A_NUMBER))),
    _set("basis.usable_weight", lambda rng: rng.choice((-0.1, 1.1, 50, *NOT_A_NUMBER))),
    _set("basis.n_distinct", lambda rng: rng.choice((0, -5, 1.5, "x"))),
    _set("basis.n_repeated", lambda rng: -rng.randrange(1, 10)),
    _set("unheard_of", lambda rng: rng.random()),
    _scale("error", lambda rng: rng.choice((-1.0, -0.001, 20.0, 1000.0, 0.0))),
    _scale("upper", lambda rng: rng.choice((-1.0, 0.0, 0.1, 100.0))),
    _scale("lower", lambda rng: rng.choice((-1.0, 3.0, 50.0))),
    _one("error", lambda rng: rng.choice((-1e-3, 1.5, 1e300, *NOT_A_NUMBER))),
    _one("upper", lambda rng: rng.choice((-1e-3, 1.5, *NOT_A_NUMBER))),
    _one("lower", lambda rng: rng.choice((-1e-3, 0.99, *NOT_A_NUMBER))),
    _one("sizes", lambda rng: rng.choice((0, -1, 1.5, 2**63, None, "5"))),
)  # fmt: skip
