"""The command `ens-plugin oob`: out-of-bag predictions of the training rows, as a file."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ens_plugin.cli.console import only_results_on_stdout, output_option, write_bytes
from ens_plugin.cli.inputs import NO_PARQUET, AnalysisRequest, model_and_rows, row_arguments
from ens_plugin.core.validation import counted
from ens_plugin.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from ens_plugin.oob.predictions import OobPredictions

__all__ = ["oob"]


@click.command(
    epilog=(
        "\b\n"
        "Example:\n"
        "  ens-plugin oob forest.joblib --data train.csv --target y --out preds.parquet\n"
        "  ens-plugin oob models:/churn@champion --data train.parquet \\\n"
        "      --target churned --out preds.csv\n"
    )
)
@row_arguments
@output_option("--out", "csv or parquet file to write, one line for each row of FILE, in their order.", required=True)
def oob(request: AnalysisRequest, out_path: Path) -> None:
    """Write the out-of-bag prediction of each training row.

    It is that of the members that were not trained on the row. The columns written are label,
    value_LABEL for each label (its probability, or share of votes), and n_members, the number of
    members that predicted the row; of a regression, value and n_members. A row that every member was
    trained on has empty cells and n_members 0.

    MODEL is as for `ens-plugin analyze`. Loading a model runs code stored in it: load only what you
    trust. FILE holds the exact training rows in their order. Columns of weights and groups are no
    features; with --groups, a member predicts a row only if it was trained on no row of the group.
    """
    from ens_plugin.oob.predictions import oob_predictions

    if out_path.resolve() == Path(request.data).resolve():
        raise InputError("--out names the file with the rows, which would be replaced. Choose another path.")
    content = _writer(out_path)
    with only_results_on_stdout():
        model, rows = model_and_rows(request)
        found = oob_predictions(model, rows.X, rows.y, groups=rows.groups, n_jobs=request.options.n_jobs)
    write_bytes(out_path, content(found.to_frame()))
    click.echo(_sentence(found, out_path))


def _writer(path: Path) -> Callable[[pd.DataFrame], bytes]:
    """Return what makes the content of a file from a table, by the ending of its name."""
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        return _parquet
    if name.endswith(".csv"):
        return lambda frame: frame.to_csv(index=False, lineterminator="\n").encode()
    raise InputError(f"The file to write, {str(path)!r}, is neither .csv nor .parquet. Choose one of these endings.")


def _parquet(frame: pd.DataFrame) -> bytes:
    buffer = BytesIO()
    try:
        frame.to_parquet(buffer, index=False)
    except ImportError as error:
        raise InputError(NO_PARQUET.format("The predictions cannot be written")) from error
    return buffer.getvalue()


def _sentence(found: OobPredictions, path: Path) -> str:
    members, without = found.n_members, int((found.n_members == 0).sum())
    text = (
        f"Wrote {counted(members.size, 'row')} to {path}: {members.min()} to "
        f"{counted(members.max(), 'out-of-bag member')} each, {members.mean():.3g} on average."
    )
    return text if not without else f"{text} {without} have none, and no prediction."
