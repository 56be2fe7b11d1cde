"""The attacks on the promises of the reliability page: how many were tried, and how many got past.

`tests/attacks` draws the attacks: rows and targets that are not those of the training for forests of scikit-learn,
LightGBM and XGBoost; gates at once, that die or are cut off, on a registry in memory; hostile inputs; and fits with
and without autologging. Wrong rows get past where they are accepted without a warning and the error is beyond two
half-widths and two standard errors of the measured truth. Valid analyses are made beside them.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path
from types import ModuleType

from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude

# For each attack with wrong rows.
GATE_ROUNDS, INPUTS, FITS = 0.25, 12.5, 0.125


def wrong_rows(options: Options) -> tuple[list[Claim], str]:
    """Pass wrong rows and targets."""
    attacks = import_module("tests.attacks.wrong_rows")
    trials = attacks.run(options.repetitions, options.seed)
    valid = Counter(trial.outcome for trial in trials if trial.attack.startswith("valid"))
    wrong = Counter(trial.outcome for trial in trials if not trial.attack.startswith("valid"))
    past = wrong["past"] + wrong["foreign"]
    shown: list[tuple[str, int]] = [
        ("attacks with wrong rows", wrong.total()),
        ("refused", wrong["refused"]),
        ("with a warning in the first lines", wrong["warned"]),
        ("accepted within two half-widths of the truth", wrong["harmless"]),
        ("valid analyses", valid.total()),
        ("valid analyses that were refused", valid["refused"]),
    ]
    claims = [Claim("wrong rows that got past", past, None, high=0.0, digits=0)]
    return claims, table(["wrong rows", "number"], [[name, str(number)] for name, number in shown])


def gates(options: Options) -> tuple[list[Claim], str]:
    """Run gates against each other, and against registries that do not respond."""
    attacks = import_module("tests.attacks.gates")
    # A process that is killed, and a report that is registered anew, need a store, which takes minutes.
    kinds = {kind: attacks.KINDS[kind] for kind in ("concurrent", "crashed", "cut off", "overtaken")}
    rounds = max(int(GATE_ROUNDS * options.repetitions), 1)
    found = attacks.attack(rounds, options.seed, kinds, in_memory=True)
    n_past = sum(sum(counts.values()) for counts in attacks.past(found).values())
    lines = [[kind, str(counts["(rounds)"]), str(counts["(promotions)"])] for kind, counts in found.items()]
    lines.append(["all", str(rounds), str(sum(counts["(promotions)"] for counts in found.values()))])
    claims = [Claim("rounds of gates: what contradicts the registry", n_past, None, high=0.0, digits=0)]
    return claims, table(["gates", "rounds", "promotions"], lines)


def inputs(options: Options) -> tuple[list[Claim], str]:
    """Pass hostile inputs to each surface."""
    attacks = import_module("tests.attacks.inputs")
    wanted = INPUTS * options.repetitions
    lines, n_past, n_inputs = [], 0, 0
    for kind in attacks.KINDS:
        outcomes: Counter[str] = Counter()
        for index in range(max(int(wanted * attacks.SHARES[kind] / sum(attacks.SHARES.values())), 1)):
            outcomes[_outcome(attacks, kind, options.seed + index)] += 1
        n_inputs += outcomes.total()
        past = outcomes.total() - outcomes["answered"] - outcomes["refused"]
        n_past += past
        lines.append([kind, *(str(n) for n in (outcomes.total(), outcomes["answered"], outcomes["refused"], past))])
    claims = [Claim(f"{n_inputs} hostile inputs: got past", n_past, None, high=0.0, digits=0)]
    return claims, table(["inputs", "tried", "got a result", "refused", "got past"], lines)


def _outcome(attacks: ModuleType, kind: str, seed: int) -> str:
    """Return how one input ended, among temporary files of its own: those of other programs are no traces of it."""
    usual = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="attack-") as temporary:
        (Path(temporary) / "files").mkdir()
        tempfile.tempdir = temporary
        try:
            return str(attacks.attack(kind, seed, Path(temporary) / "files")).partition(":")[0]
        finally:
            tempfile.tempdir = usual


def autologging(options: Options) -> tuple[list[Claim], str]:
    """Fit models with and without autologging."""
    attacks = import_module("tests.attacks.autolog")
    tally = attacks.attack(max(int(FITS * options.repetitions), 1), options.seed)
    claims = [
        Claim("fits with autologging that changed something", tally.faults.total(), None, high=0.0, digits=0),
        Claim("kinds of models that were fitted", len(tally.fits), digits=0),
    ]
    lines = [["fits", str(tally.fits.total())], *([f"runs {status}", str(n)] for status, n in tally.runs.items())]
    return claims, table(["autologging", "number"], lines)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 400, arguments, smoke=8)
    sections = [part(options) for part in (wrong_rows, gates, inputs, autologging)]
    claims = [claim for found, _ in sections for claim in found]
    return conclude(__name__, options, claims, [text for _, text in sections])
