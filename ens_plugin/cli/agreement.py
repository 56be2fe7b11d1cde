"""The command `ens-plugin agreement`: whether a model decides as a larger one would, on rows without labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ens_plugin.cli.console import (
    NO_RESULT,
    NOT_MET,
    SHARE,
    only_results_on_stdout,
    output_option,
    paragraph,
    write_text,
)
from ens_plugin.cli.inputs import (
    KINDS,
    feature_arguments,
    features_for_model,
    left_out_note,
    load_named,
    max_size_option,
    means_arguments,
    read_table,
)
from ens_plugin.report.result import FEWEST_ROWS
from ens_plugin.report.text import level_text, wrapped

if TYPE_CHECKING:
    from ens_plugin.analysis.unlabelled import Agreement

__all__ = ["agreement"]


@click.command(
    epilog=(
        "\b\n"
        "Example:\n"
        "  ens-plugin agreement forest.joblib --data today.parquet --min 0.99\n"
        "  ens-plugin agreement models:/churn@champion --data today.csv \\\n"
        "      --drop customer --json agreement.json\n"
    )
)
@click.argument("model")
@click.option("--data", required=True, metavar="FILE", help=f"File with rows without labels: {KINDS}.")
@click.option(
    "--min",
    "least",
    type=SHARE,
    help="Exit with 1 if the agreement with the infinite ensemble is lower.",
)
@click.option("--confidence", type=float, default=0.99, show_default=True, help="Wanted agreement, for the size.")
@max_size_option
@feature_arguments
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the result on stdout.",
)
@output_option("--json", "Also save the result as JSON.")
@means_arguments
def agreement(
    model: str, data: str, least: float | None, confidence: float, max_size: int, drop: tuple[str, ...],
    features: tuple[str, ...], style: Literal["text", "json"], json_path: Path | None, n_jobs: int | None,
    tracking_uri: str | None,
) -> None:  # fmt: skip
    """Print how often MODEL decides as a larger one would.

    FILE holds rows without labels that the model was not trained on, such as those of today. Columns
    that the model does not know are left out, where it has the names of its features. MODEL is as for
    `ens-plugin analyze`. Loading a model runs code stored in it: load only what you trust.

    Exits with 1 if the agreement is below --min, with 2 if there is no result, or with --min too few
    rows or a doubt.
    """
    from ens_plugin.analysis.unlabelled import agreement as estimated

    with only_results_on_stdout():
        frame = read_table(data)
        fitted = load_named(model, tracking_uri)
        rows = features_for_model(frame, fitted, drop=drop, features=features)
        if rows.left_out:
            paragraph(left_out_note(rows.left_out))
        found = estimated(fitted, rows.X, confidence=confidence, max_size=max_size, n_jobs=n_jobs)
    if json_path is not None:
        write_text(json_path, found.to_json())
    click.echo(found.to_json() if style == "json" else str(found))
    if least is not None:
        _judge(found, least, is_shown=style == "text")


def _judge(found: Agreement, least: float, *, is_shown: bool) -> None:
    """Exit with 2 where the rows decide nothing, and with 1 where the agreement is lower than demanded."""
    is_decided = found.n_rows >= FEWEST_ROWS and not found.doubts
    meets = found.agreement >= least
    state = ("met" if meets else "not met") if is_decided else "not judged, because of the warning"
    if is_shown:
        click.echo("\n".join(["", *wrapped(f"At least {level_text(least)} wanted: {state}.")]))
    if not is_decided or not meets:
        click.get_current_context().exit(NOT_MET if is_decided else NO_RESULT)
