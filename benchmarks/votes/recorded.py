"""The majority of repeated answers at more samples than there are, on answers that are on record.

Of each question, 40 to 100 answers of one language model to one prompt are recorded, or 47 to 100 of people; some of
them, chosen at random, are at hand. The truth at k samples is that of random choices of k recorded answers, and the
largest k is all of them. It is not that of infinitely many answers, which nobody has. The samples at hand are among
the recorded ones. At most 500 questions are asked, at random if there are more. The plug-in takes the votes at hand for
the shares; the majority at hand is that of all samples at hand, whatever k.

Answers are read from clones of public repositories in the folder ``answers`` of the cache; none is part of this one,
and what is missing is left out. A smoke run draws its answers.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, root_mean_square
from benchmarks.votes.simulated import KINDS, TOLERANCE, right_at, size_within, won
from ens_plugin.errors import EnsPluginWarning

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

SAMPLES = (4, 5, 8, 16)
SIZES = (16, 32, 64)
MOST_QUESTIONS = 500
RIGHT = "right"
# Choices of recorded answers that are the truth.
CHOICES = 200
TRIED = "see the same figure of votes.simulated"


class Source(NamedTuple):
    """Where answers are on record: repositories, and how their clones in a folder become counts, right ones first."""

    repositories: str
    read: Callable[[Path], IntArray]


class Record(NamedTuple):
    """Recorded answers, right ones in the first column, and the share of right majorities by question and size."""

    counts: IntArray
    sizes: IntArray
    right: Array


class Found(NamedTuple):
    """What some of the recorded answers tell: of each size the errors, whether intervals hold, the samples."""

    apart: Array
    holds: NDArray[np.bool_]
    plug_in: Array
    at_hand: Array
    limit_apart: float
    size: float
    true_size: float
    size_holds: bool


def tallied(answers: Sequence[Mapping[str, int]], right: Sequence[set[str]]) -> IntArray:
    """Return how often each answer was given to each question, the right ones as one in the first column."""
    pairs = list(zip(answers, right, strict=True))
    wrong = [[times for answer, times in given.items() if answer not in true] for given, true in pairs]
    counts = np.zeros((len(pairs), 1 + max(map(len, wrong))), dtype=np.int64)
    for row, (given, true), others in zip(counts, pairs, wrong, strict=True):
        row[0] = sum(times for answer, times in given.items() if answer in true)
        row[1 : 1 + len(others)] = others
    return counts


def dates(folder: Path) -> IntArray:
    """Read dates worked out by code-davinci-002, which is asked to reason from the least to the most."""
    return _from_least_to_most(folder, "date", _date)


def plans(folder: Path) -> IntArray:
    """Read plans of a robot by code-davinci-002; each of several plans may be right."""
    return _from_least_to_most(folder, "saycan", _plan)


def letters(folder: Path) -> IntArray:
    """Read the last letters of four words put together by GPT-3.5."""
    lines = _lines(folder / "ESC/GPT3.5_result/last_letters/T0.7.jsonl")
    return tallied(
        [Counter(_letters(answer) for answer in line["generated_answer"]) for line in lines],
        [{line["answer"]} for line in lines],
    )


def game_of_24(folder: Path, log: str) -> IntArray:
    """Read formulas that shall make 24 of four numbers; all right ones are one answer."""
    puzzles = json.loads((folder / log).read_text(encoding="utf-8"))
    answers = []
    for puzzle in puzzles:
        passed = puzzle["accs"] if "accs" in puzzle else [bool(each["r"]) for each in puzzle["infos"]]
        pairs = zip(puzzle["ys"], passed, strict=True)
        answers.append(Counter(RIGHT if is_right else _formula(text) for text, is_right in pairs))
    return tallied(answers, [{RIGHT}] * len(answers))


def pictures(folder: Path) -> IntArray:
    """Read what people see on the pictures of CIFAR-10's test set."""
    counts = np.load(folder / "cifar-10h/data/cifar10h-counts.npy").astype(np.int64)
    right = np.load(folder / "label-errors/original_test_labels/cifar10_test_set_original_labels.npy").astype(np.int64)
    rows = np.arange(len(counts))
    counts[rows, right], counts[:, 0] = counts[:, 0].copy(), counts[rows, right]
    return np.asarray(counts)


def sentences(folder: Path, name: str) -> IntArray:
    """Read what people think follows from a sentence; right is what the authors of the data set had found."""
    lines = _lines(folder / f"calibration-on-disagreement-data/data/chaosNLI_v1.0/chaosNLI_{name}.jsonl")
    return tallied([line["label_counter"] for line in lines], [{str(line["old_label"])} for line in lines])


LOG = "logs/game24/{}_0.7_naive_{}_sample_100_start900_end1000.json"
TREE_OF_THOUGHTS, DISAGREEMENT = "princeton-nlp/tree-of-thought-llm", "jsbaan/calibration-on-disagreement-data"
STUDENTS = "ndrew1337/ai-360-project-reasoning_llms"
# Licences: MIT of Faithful-COT and of both with the game of 24, none of ESC, CC BY-NC-SA 4.0 of CIFAR-10H, Apache 2.0
# of label-errors, and CC BY-NC 4.0 of ChaosNLI, of which the last one has a copy.
SOURCES = {
    "models: dates, code-davinci-002": Source("veronica320/Faithful-COT", dates),
    "models: plans, code-davinci-002": Source("veronica320/Faithful-COT", plans),
    "models: last letters, GPT-3.5": Source("Yiwei98/ESC", letters),
    "models: game of 24, GPT-4 in steps": Source(
        TREE_OF_THOUGHTS, partial(game_of_24, log=f"tree-of-thought-llm/{LOG.format('gpt-4', 'cot')}")
    ),
    "models: game of 24, GPT-4 at once": Source(
        TREE_OF_THOUGHTS, partial(game_of_24, log=f"tree-of-thought-llm/{LOG.format('gpt-4', 'standard')}")
    ),
    "models: game of 24, GPT-3.5 in steps": Source(
        STUDENTS, partial(game_of_24, log=f"ai-360-project-reasoning_llms/{LOG.format('gpt-3.5-turbo', 'cot')}")
    ),
    "people: pictures": Source("jcpeterson/cifar-10h and cleanlab/label-errors", pictures),
    "people: SNLI": Source(DISAGREEMENT, partial(sentences, name="snli")),
    "people: MNLI": Source(DISAGREEMENT, partial(sentences, name="mnli_m")),
    "people: abductive NLI": Source(DISAGREEMENT, partial(sentences, name="alphanli")),
}


def _lines(path: Path) -> list[dict[str, Any]]:
    # Texts contain other ends of lines.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _from_least_to_most(folder: Path, task: str, answer: Callable[[str], str]) -> IntArray:
    run = _lines(folder / f"Faithful-COT/output_dir/{task}/test/code002_LtM_n:40/predictions.jsonl")
    true = {int(line["id"]): line["answer"] for line in _lines(folder / f"Faithful-COT/data/{task}/test.jsonl")}
    one_of = {number: json.loads(text) if text.startswith("[") else [text] for number, text in true.items()}
    return tallied(
        [Counter(answer(text) for text in line["completions"]) for line in run],
        [{answer(text) for text in one_of[int(line["id"])]} for line in run],
    )


def _date(text: str) -> str:
    return "".join(re.findall(r"\d\d/\d\d/\d{4}", text)[-1:])


def _plan(text: str) -> str:
    actions = re.findall(r"\w+\([^)]*\)", text.rpartition("Plan:")[2])
    return ", ".join(action for action in actions if action != "find(initial)")


def _letters(text: str) -> str:
    return re.sub("[^a-z]", "", text.lower().rpartition("the answer is")[2])


def _formula(text: str) -> str:
    last = text.strip().split("\n")[-1].lower().removeprefix("answer:")
    return last.partition("=")[0].replace(" ", "")


def chosen(counts: IntArray, size: int, rng: np.random.Generator) -> IntArray:
    """Choose so many answers of each question at random, without replacement."""
    drawn, left, wanted = np.zeros_like(counts), counts.sum(axis=1), np.full(len(counts), size)
    for column, given in enumerate(counts.T):
        left = left - given
        drawn[:, column] = rng.hypergeometric(given, left, wanted)
        wanted = wanted - drawn[:, column]
    return drawn


def record(counts: IntArray, choices: int, rng: np.random.Generator) -> Record:
    """Return recorded answers with the truth by size: odd ones, those that are compared, and the largest."""
    largest = int(counts.sum(axis=1).min())
    odd = np.geomspace(1, largest, 20).astype(np.int64) // 2 * 2 + 1
    sizes = np.unique([*odd[odd < largest], *(size for size in SIZES if size < largest), largest])
    right = [np.mean([won(chosen(counts, int(size), rng)) for _ in range(choices)], axis=0) for size in sizes]
    return Record(counts, sizes, np.array(right))


def found(whole: Record, n_samples: int, seed: int) -> Found:
    """Return what `n_samples` of the recorded answers to some questions tell."""
    rng = np.random.default_rng(seed)
    asked = rng.permutation(len(whole.counts))[:MOST_QUESTIONS]
    counts = chosen(whole.counts[asked], n_samples, rng)
    answers = [np.repeat(np.arange(own.size), own).tolist() for own in counts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EnsPluginWarning)
        result = ens_plugin.analyze_votes(answers, [0] * asked.size, tolerance=TOLERANCE)
    curve, largest = whole.right[:, asked].mean(axis=1), int(whole.sizes[-1])
    sizes = [*(size for size in SIZES if n_samples < size < largest), largest]
    true = curve[np.searchsorted(whole.sizes, sizes)]
    frame = result.at(sizes)
    odd = (whole.sizes % 2 == 1) | (whole.sizes == largest)
    wanted = size_within(np.abs(curve - curve[-1])[odd], whole.sizes[odd])
    first, last = (min(end, largest) for end in result.size_interval)
    return Found(
        frame.maj_at_k.to_numpy() - true,
        ((frame.lower <= true) & (true <= frame.upper)).to_numpy(),
        np.array([right_at(counts / n_samples, size, rng, 20) for size in sizes]) - true,
        won(counts).mean() - true,
        float(result.at(np.inf).maj_at_k.iloc[0] - true[-1]),
        min(result.recommended_size, largest),
        wanted,
        # An odd size is stated, and the true one lies between odd sizes.
        first - 2 <= wanted <= last + 2,
    )


def recorded(options: Options) -> tuple[dict[str, Record], list[str]]:
    """Return the recorded answers that are here, and what is left out."""
    rng = np.random.default_rng(options.seed)
    if options.smoke:
        return {"drawn: hard": record(rng.multinomial(40, KINDS["hard"](60, rng)), 20, rng)}, []
    here, left_out = {}, []
    folder = options.cache / "answers"
    for name, source in SOURCES.items():
        try:
            counts = source.read(folder)
        except FileNotFoundError:
            left_out.append(f"{name}: clone github.com/{source.repositories} into {folder}")
            continue
        here[name] = record(counts, CHOICES, rng)
    return here, left_out


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments)
    here, left_out = recorded(options)
    if not here:
        return f"## {__name__.removeprefix('benchmarks.')}\n\nLeft out: {'; '.join(left_out)}."
    lines: list[list[str]] = []
    of_group: dict[str, list[list[Found]]] = {}
    for name, whole in here.items():
        for n_samples in SAMPLES[1:2] if options.smoke else SAMPLES:
            runs = Parallel(n_jobs=options.n_jobs)(
                delayed(found)(whole, n_samples, options.seed + 1 + each) for each in range(options.repetitions)
            )
            of_group.setdefault(name.partition(":")[0], []).append(runs)
            asked = f"{min(len(whole.counts), MOST_QUESTIONS)}"
            lines.append([name, str(n_samples), asked, f"{whole.sizes[-1]}", *_cells(runs)])
    return conclude(
        __name__,
        options,
        [claim for group, cells in of_group.items() for claim in _claims(group, cells)],
        [
            table(
                [
                    "kind", "samples", "questions", "recorded", "bias at 16, 32, 64 if between, and at all (points)",
                    "rms", "plug-in: rms", "majority at hand: rms", "held (%)", "limit over all (points)",
                    "samples within a point of all: true", "median", "within a factor 2 (%)",
                    "intervals that hold them (%)",
                ],
                lines,
            )
        ],
        "; ".join(left_out),
    )  # fmt: skip


def _claims(group: str, cells: list[list[Found]]) -> list[Claim]:
    every = [run for runs in cells for run in runs]
    bias = 100.0 * np.concatenate([np.mean([run.apart for run in runs], axis=0) for runs in cells])
    rms, plug_in, at_hand = (
        root_mean_square(np.concatenate(each))
        for each in zip(*((run.apart, run.plug_in, run.at_hand) for run in every), strict=True)
    )
    held = 100.0 * float(np.mean(np.concatenate([run.holds for run in every])))
    sizes_held = 100.0 * float(np.mean([run.size_holds for run in every]))
    return [
        Claim(f"{group}: largest bias at 16, 32, 64 and all recorded answers of any kind (points)",
              float(np.abs(bias).max()), high=1.0, tried=TRIED),
        Claim(f"{group}: mean of the absolute biases (points)", float(np.abs(bias).mean()), high=1.0, tried=TRIED),
        Claim(f"{group}: rms error over that of the plug-in", rms / plug_in, high=1.0, tried=TRIED),
        Claim(f"{group}: rms error over that of the majority at hand", rms / at_hand, high=1.0, tried=TRIED),
        Claim(f"{group}: 95 % intervals that hold for these questions (%)", held, None, 90, 99, 1, TRIED),
        Claim(f"{group}: samples within a point: within a factor 2 (%)", 100.0 * _near(every), low=85.0, tried=TRIED),
        Claim(f"{group}: 95 % intervals that hold the samples within a point (%)", sizes_held, None, 90, 99, 1, TRIED),
    ]  # fmt: skip


def _near(runs: list[Found]) -> float:
    return float(np.mean([abs(np.log2(run.size / run.true_size)) <= 1.0 for run in runs]))


def _cells(runs: list[Found]) -> list[str]:
    def joined(values: Array, digits: int = 1) -> str:
        return ", ".join(f"{value:.{digits}f}" for value in np.ravel(values))

    errors = (100.0 * np.array(each) for each in zip(*((r.apart, r.plug_in, r.at_hand) for r in runs), strict=True))
    apart, *others = errors
    return [
        joined(apart.mean(axis=0)),
        *(joined(np.sqrt((each**2).mean(axis=0))) for each in (apart, *others)),
        joined(100.0 * np.mean([run.holds for run in runs], axis=0), 0),
        f"{100.0 * np.mean([run.limit_apart for run in runs]):.1f}",
        f"{np.median([run.true_size for run in runs]):.0f}",
        f"{np.median([run.size for run in runs]):.0f}",
        f"{100.0 * _near(runs):.0f}",
        f"{100.0 * np.mean([run.size_holds for run in runs]):.0f}",
    ]
