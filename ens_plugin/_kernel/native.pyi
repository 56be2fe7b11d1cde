from collections.abc import Callable
from typing import Any

def address(array: object, /) -> int: ...
def put_trees(
    trees: tuple[tuple[Any, ...], ...],
    visit: Callable[[int], object] | None,
    roots: int,
    n_features: int,
    n_sets: int,
    is_double: bool,
    nodes: int,
    order: int,
    space: int,
    /,
) -> bool: ...
def fill_tables(values: tuple[Any, ...], kind: str, n_bytes: int, roots: int, order: int, table: int, /) -> None: ...
def walk(
    values: int,
    wanted: int,
    n_rows: int,
    n_features: int,
    is_double: bool,
    nodes: int,
    roots: int,
    n_trees: int,
    words: int,
    starts: int,
    least: float,
    is_endless: bool,
    table: int,
    outputs: int,
    n_bytes: int,
    /,
) -> None: ...
def number(
    splits: int,
    split_starts: int,
    leaves: int,
    leaf_starts: int,
    n_trees: int,
    codes: int,
    turns: int,
    turn_starts: int,
    /,
) -> None: ...
def slice(
    values: int,
    wanted: int,
    n_rows: int,
    n_features: int,
    is_double: bool,
    slices: tuple[int, ...],
    n_trees: int,
    output: tuple[int, int, int, int],
    counts: tuple[int, int, int, int, int],
    sums: tuple[int, int, int, int, int, int],
    /,
) -> None: ...
def stop(
    values: int,
    n_rows: int,
    forest: tuple[int, bool, int, int, int, int, int, float],
    stops: tuple[int, ...],
    totals: int,
    queries: int,
    /,
) -> None: ...
def serve(
    values: int,
    leaves: int,
    taken: int,
    filled: int,
    n_members: int,
    n_rows: int,
    n_leaves: int,
    stride: int,
    outputs: int,
    /,
) -> int: ...
def tally(
    outputs: int,
    counted: int,
    shape: tuple[int, int, int],
    steps: tuple[int, int, int],
    target: int,
    sums: int,
    /,
) -> None: ...
def tally_classes(
    values: int, leaves: int, bits: int, shape: tuple[int, int, int, int, int], target: int, sums: int, /
) -> None: ...
def draw(seeds: int, n_members: int, n_rows: int, n_draws: int, bits: int, /) -> None: ...
def products(words: int, n_words: int, powers: int, n_rows: int, highest: int, bits: int, /) -> None: ...
def label(
    values: int,
    left: tuple[int, int, int],
    n_nodes: int,
    n_labels: int,
    labels: int,
    n_bytes: int,
    /,
) -> bool: ...
def elect(
    votes: int,
    places: int,
    of_true: int,
    shape: tuple[int, int, int, int, int],
    base: int,
    wrong: int,
    /,
) -> None: ...
def pair_votes(
    first: tuple[int, ...],
    n_first: int,
    second: tuple[int, ...],
    n_second: int,
    n_members: int,
    is_same: bool,
    sums: int,
    /,
) -> int: ...
def place(labels: int, counted: int, n_members: int, n_rows: int, factors: int, places: int, /) -> None: ...
def move_labels(labels: int, counted: int, n_members: int, n_rows: int, order: int, /) -> None: ...
def block_pairs(
    votes: int,
    counted: int,
    n_members: int,
    n_rows: int,
    chosen: int,
    starts: int,
    n_blocks: int,
    slopes: int,
    place: int,
    sums: int,
    freedoms: int,
    /,
) -> None: ...
