"""The command line, ``ens-plugin``: analyses of stored models, the gate and the registry.

Results go to stdout, progress and notices to stderr.  Exit codes: 0 success, 1 a requirement is not met,
2 no result.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ens_plugin.cli.console import (
    NO_RESULT,
    NOT_MET,
    SHARE,
    Command,
    browse_hint,
    notice,
    only_results_on_stdout,
    output_option,
    paragraph,
    quiet_libraries,
    show_refusal,
    use_store,
    write_text,
)
from ens_plugin.cli.inputs import (
    CSV,
    FEATHER,
    KINDS,
    TSV,
    AnalysisRequest,
    analysis_arguments,
    analysis_of,
    budget_arguments,
    feature_arguments,
    features_for_model,
    left_out_note,
    load_named,
    max_size_option,
    means_arguments,
    read_samples,
    read_table,
)
from ens_plugin.errors import EnsPluginError
from ens_plugin.findings import CHECKS, explain
from ens_plugin.report.answers import markdown_summary
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.result import FEWEST_ROWS
from ens_plugin.report.text import level_text, printable, wrapped
from ens_plugin.tracking.connection import (
    check_server,
    require_mlflow,
    tracking_errors,
    without_credentials,
    without_secrets,
)
from ens_plugin.tracking.log import DEFAULT_PREFIX

if TYPE_CHECKING:
    import pandas as pd

    from ens_plugin.analysis.unlabelled import Agreement
    from ens_plugin.votes import VerdictReport, VoteReport

Format = Literal["text", "json", "markdown"]


def _formats(*styles: str) -> Callable[[Command], Command]:
    return click.option(
        "--format", "style", type=click.Choice(styles), default="text", show_default=True,
        help="Form of the result on stdout.",
    )  # fmt: skip


format_option = _formats("text", "json", "markdown")
two_formats_option = _formats("text", "json")


def _example(*lines: str) -> str:
    """Return lines of commands as the end of a help page, which click leaves as they are."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines), ""])


def _print_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if not is_asked or context.resilient_parsing:
        return
    from ens_plugin import __version__

    click.echo(f"ens-plugin {__version__}")
    context.exit()


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog=_example("ens-plugin demo", "ens-plugin analyze forest.joblib --data train.csv --target label"),
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Estimate how the error of a trained ensemble depends on its size.

    No validation data and no further training are needed: each member predicts the training rows
    that it was not trained on.

    Exit codes: 0 success, 1 a requirement is not met (no size is large enough), 2 no result.
    """


@cli.command(epilog=_example("ens-plugin demo", "mlflow ui --backend-store-uri sqlite:///mlflow.db"))
@click.option("--tracking-uri", metavar="URI", help="MLflow tracking store; as configured for MLflow by default.")
def demo(tracking_uri: str | None) -> None:
    """Train forests on real data, log them to MLflow.

    It prints what each forest is worth: whether it needs more trees, how good it is, and whether to trust that.

    The data sets ship with scikit-learn. Without a configured tracking store the runs go to
    sqlite:///mlflow.db in the current directory.
    """
    from ens_plugin.cli.demo import demo_experiments, demonstrated, demonstrations, log_demonstrations

    uri = use_store(tracking_uri)
    experiments = demo_experiments(uri)
    shown = demonstrations()
    click.echo(demonstrated(shown))
    log_demonstrations(shown, uri, experiments)
    click.echo(f"\nLogged {len(shown)} runs to MLflow, each to an experiment of its own.\nTo see the first curve:\n")
    click.echo(browse_hint(uri, next(iter(experiments.values()))))


@cli.command("explain", epilog=_example("ens-plugin explain subjects"))
@click.argument("code", required=False)
def explain_code(code: str | None) -> None:
    """Say what the CODE of a warning means.

    Each warning of a report ends with a code in brackets. Without CODE, all of them are listed.
    """
    lines = list(CHECKS) if code is None else explain(code.strip("[]")).splitlines()
    click.echo("\n".join(part for line in lines for part in wrapped(line)))


@cli.command(
    epilog=_example(
        "ens-plugin analyze models:/churn@champion --data rows.parquet --target y",
        "ens-plugin analyze forest.joblib --data rows.csv --target y --html page.html",
    )
)
@analysis_arguments
@format_option
@click.option("--details", is_flag=True, help="Also print errors by label, warnings in full, and how this is known.")
@output_option("--html", "Also write the report as a self-contained HTML page.")
@output_option("--json", "Also save the whole report as JSON; EnsembleReport.from_json reads it.")
@click.option("--log/--no-log", default=False, show_default=True, help="Log the report to MLflow.")
@click.option("--experiment", metavar="NAME", help="With --log: experiment of the new run.")
@click.option(
    "--run-id",
    metavar="ID",
    help="With --log: log to this run. By default a new one, or the model's own run if it has no LoggedModel.",
)
def analyze(request: AnalysisRequest, style: Format, details: bool, log: bool, **options: Any) -> None:
    """Report how the error of MODEL depends on its size.

    The report also has the recommended size, and bias and variance over seeds, given this training
    set. The infinite ensemble that options name is one of infinitely many members.

    MODEL is a models:/ or runs:/ URI, an MLflow model directory, a file written by joblib, pickle
    or skops, or one written by save_model of LightGBM or XGBoost. Loading a model runs code stored
    in it: load only what you trust. With MLFLOW_ALLOW_PICKLE_DESERIALIZATION=false nothing that
    could run code is loaded.

    FILE holds the exact training rows in their order, or with --holdout rows that were not used
    for training: the model's features, the target, and what other options name. Columns
    that the model does not know are left out, where it has the names of its features.
    """
    experiment, run_id = options["experiment"], options["run_id"]
    if not log and (experiment or run_id):
        raise click.UsageError("--experiment and --run-id choose where to log. Add --log.")
    if experiment and run_id:
        raise click.UsageError("--run-id names a run that already has an experiment. Leave out --experiment.")
    if details and style != "text":
        raise click.UsageError(f"--format {style} has all details. Leave out --details.")
    if log:
        # Before an analysis that may take minutes.
        require_mlflow()
    report = analysis_of(request).report
    render: Callable[[], str] = report.to_json if style == "json" else report.summary
    click.echo((markdown_summary(report) if style == "markdown" else render()).rstrip())
    if details:
        click.echo(f"\n{report.details()}")
    if options["json_path"] is not None:
        write_text(options["json_path"], report.to_json())
    if options["html_path"] is not None:
        report.to_html(options["html_path"])
    if log:
        _log(report, request, experiment, run_id)


@cli.command(
    epilog=_example(
        "ens-plugin recommend forest.joblib --data train.csv --target y \\",
        "    --criterion agreement --tolerance 0.005",
        "ens-plugin recommend forest.joblib --data train.csv --target y --measure \\",
        "    --format markdown --picture curve.png --max-size-ratio 2",
        "ens-plugin recommend forest.joblib --data train.csv --target y \\",
        "    --max-megabytes 50 --max-latency-ms 2",
    )
)
@analysis_arguments
@format_option
@click.option(
    "--measure",
    is_flag=True,
    help="Measure bytes and latency, and print what each size costs.",
)
@output_option("--picture", "Also write the error curve as a PNG; Markdown and JSON have its path.")
@output_option("--json", "Also save the result as JSON.")
@click.option(
    "--max-size-ratio",
    type=click.FloatRange(min=1.0),
    help="Exit with 1 if MODEL has more than this many times the needed members.",
)
@click.option("--min-agreement", type=SHARE, help="Exit with 1 if the agreement with the infinite ensemble is lower.")
@budget_arguments
def recommend(
    request: AnalysisRequest, style: Format, measure: bool, picture_path: Path | None, json_path: Path | None,
    **limits: float | None,
) -> None:  # fmt: skip
    """Print how many members MODEL needs, and the reason.

    MODEL and FILE are as for `ens-plugin analyze`. Loading a model runs code stored in it: load only
    what you trust.

    With --max-megabytes or --max-latency-ms, bytes and times are measured, and printed is how many
    members fit, with which error. ens_plugin.truncate cuts to what fits.

    Exits with 1 if no size up to --max-size is large enough or a demand is not met, with 2 if there
    is no result.
    """
    from ens_plugin.cli.recommendation import Limits, as_json, as_markdown, as_text, recommended

    found = recommended(request, Limits(**limits), measure, picture_path)
    if json_path is not None:
        write_text(json_path, as_json(found) + "\n")
    click.echo({"text": as_text, "json": as_json, "markdown": as_markdown}[style](found))
    if not found.is_decided:
        click.get_current_context().exit(NO_RESULT)
    if not found.passed:
        click.get_current_context().exit(NOT_MET)


@cli.command(
    epilog=_example(
        "ens-plugin gate models:/churn/7 --policy policy.toml",
        "ens-plugin gate models:/churn/7 --policy policy.toml --baseline champion \\",
        "    --data test.parquet --target churned --holdout --promote champion \\",
        "    --audit-log gate.jsonl",
    )
)
@click.argument("model")
@click.option("--policy", required=True, metavar="FILE", type=Path, help="TOML file with the requirements.")
@click.option("--baseline", metavar="VERSION", help="Compare with this version: an alias of the same model, or a URI.")
@click.option("--data", metavar="FILE", help=f"File to measure the model and the baseline on: {KINDS}.")
@click.option("--target", metavar="COL", help="With --data: column with the true labels or values.")
@click.option("--holdout", is_flag=True, help="With --data: no member of either was trained on these rows.")
@feature_arguments
@click.option("--promote", metavar="ALIAS", help="Move this alias to the version if it passes.")
@click.option("--allow-older", is_flag=True, help="With --promote: also from a newer version to this one.")
@click.option("--prefix", default=DEFAULT_PREFIX, show_default=True, help="Prefix that the report was logged with.")
@click.option("--audit-log", metavar="FILE", type=Path, help="Append a line of JSON for each event; - for stderr.")
@click.option("--tracking-uri", metavar="URI", help="MLflow tracking store; as configured for MLflow by default.")
@format_option
def gate(model: str, style: Format, **options: Any) -> None:
    """Judge a registered version by a policy, and promote it.

    MODEL is models:/NAME/VERSION or models:/NAME@ALIAS. Verdict and reasons become tags of the
    version. Without --data the report that is linked to its files decides, and no model is loaded. With
    --data the model is loaded, and that of --baseline. Loading a model runs code stored in it: load only
    what you trust.

    Exits with 1 if the version does not meet the policy, with 2 if there is no verdict; in both
    cases nothing is promoted.
    """
    from ens_plugin.cli.registry import GateSetup, RowFile, decide, rows_from_file

    rows = rows_from_file(options.pop("data"), RowFile(**{name: options.pop(name) for name in RowFile._fields}))
    decision = decide(model, GateSetup(**options), rows)
    click.echo({"text": decision.summary, "json": decision.to_json, "markdown": decision.to_markdown}[style]())
    if not decision.passed:
        click.get_current_context().exit(NOT_MET)


@cli.command(
    epilog=_example(
        "ens-plugin rightsize models:/churn/7 --data train.parquet --target churned",
        "ens-plugin rightsize models:/churn@champion --data test.csv \\",
        "    --target churned --holdout",
    )
)
@analysis_arguments
@format_option
@click.option("--register", metavar="NAME", help="Registered model that gets the new version; MODEL's own by default.")
def rightsize(request: AnalysisRequest, style: Format, register: str | None) -> None:
    """Cut MODEL to its recommended size, as a new version.

    MODEL is models:/NAME/VERSION, models:/NAME@ALIAS, models:/m-... or runs:/ID/PATH; FILE is as for
    `ens-plugin analyze`. The smaller model is compared with MODEL on these rows, logged with its
    report, loaded back, and only then registered; no alias moves. Loading a model runs code stored
    in it: load only what you trust.

    Exits with 1 if no size is large enough or the smaller model fails a check, with 2 if there is no
    result.
    """
    from ens_plugin.cli.registry import rightsized

    found = rightsized(request, register)
    click.echo({"text": found.summary, "json": found.to_json, "markdown": found.to_markdown}[style]())
    if not found.passed:
        click.get_current_context().exit(NOT_MET)


@cli.command(
    epilog=_example(
        "ens-plugin agreement forest.joblib --data today.parquet --min 0.99",
        "ens-plugin agreement models:/churn@champion --data today.csv \\",
        "    --drop customer --json agreement.json",
        "ens-plugin agreement isolation_forest.joblib --data train.csv --top 40",
    )
)
@click.argument("model")
@click.option("--data", required=True, metavar="FILE", help=f"File with rows without labels: {KINDS}.")
@click.option("--min", "least", type=SHARE, help="Exit with 1 if the agreement with the infinite ensemble is lower.")
@click.option("--top", type=int, metavar="K", help="Judge the list of the K rows with the largest values instead.")
@click.option("--within", metavar="DISTANCE", help='Judge values instead: a distance of them, or a share as "5 %".')
@click.option("--label", help="Label whose probability --top and --within are about.")
@click.option(
    "--tolerance",
    type=float,
    help="Share that may differ, for the size: of labels from those of infinitely many members (by default 0.01), of "
    "lists and values from those with another seed (0.05).",
)
@max_size_option
@feature_arguments
@two_formats_option
@output_option("--html", "Also write the result as a self-contained HTML page.")
@output_option("--json", "Also save the result as JSON.")
@means_arguments
def agreement(
    model: str, data: str, least: float | None, style: Literal["text", "json"], tracking_uri: str | None,
    label: str | None, within: str | None, **options: Any,
) -> None:  # fmt: skip
    """Print how often MODEL decides as a larger one would.

    FILE holds rows without labels that the model was not trained on, such as those of today; of a list
    (--top) and of values (--within) also those it was trained on. Columns
    that the model does not know are left out, where it has the names of its features. MODEL is as for
    `ens-plugin analyze`. Loading a model runs code stored in it: load only what you trust.

    Exits with 1 if the agreement is below --min, with 2 if there is no result, or with --min too few
    rows or a doubt.
    """
    from ens_plugin.analysis.agreement import agreement as estimated

    html_path, json_path = options.pop("html_path"), options.pop("json_path")
    columns = {name: options.pop(name) for name in ("drop", "features")}
    with only_results_on_stdout():
        frame = read_table(data)
        fitted = load_named(model, tracking_uri)
        rows = features_for_model(frame, fitted, path=data, **columns)
        if rows.left_out:
            paragraph(left_out_note(rows.left_out))
        found = estimated(fitted, rows.X, label=_own_label(fitted, label), within=_number(within), **options)
    for path, content in ((html_path, found.to_html), (json_path, found.to_json)):
        if path is not None:
            write_text(path, content())
    click.echo(found.to_json() if style == "json" else str(found))
    if least is not None:
        _judge(found, least, is_shown=style == "text")


def _own_label(fitted: Any, label: str | None) -> Any:
    """Return the label of a model that has this text; the text itself where none has."""
    labels = getattr(fitted, "classes_", ())
    return next((own for own in labels if str(own) == label), label)


def _number(text: str | None) -> float | str | None:
    try:
        return text if text is None else float(text)
    except ValueError:
        return text


def _judge(found: Agreement, least: float, *, is_shown: bool) -> None:
    """Exit with 2 where the rows decide nothing, and with 1 where the agreement is lower than demanded."""
    is_decided = found.n_rows >= FEWEST_ROWS and not found.doubts
    meets = found.agreement >= least
    state = ("met" if meets else "not met") if is_decided else "not judged, because of the warning"
    if is_shown:
        click.echo("\n".join(["", *wrapped(f"At least {level_text(least)} wanted: {state}.")]))
    if not is_decided or not meets:
        click.get_current_context().exit(NOT_MET if is_decided else NO_RESULT)


@cli.command(
    epilog=_example(
        "ens-plugin votes samples.csv --question id --answer reply --truth gold",
        "ens-plugin votes logs/arithmetic.eval",
        "ens-plugin votes samples_gsm8k.jsonl --normalize number",
        "ens-plugin votes promptfoo.json --max-flip-risk 0.05 --format markdown",
    )
)
@click.argument("file")
@click.option("--question", metavar="COL", help="Of a table: column that names the question of each sample.")
@click.option("--answer", metavar="COL", help="Of a table: column with the answers.")
@click.option("--truth", metavar="COL", help="Of a table: column with the right answers, if they are known.")
@click.option("--groups", metavar="COL", help="Of a table: questions with the same value here belong together.")
@click.option(
    "--normalize",
    type=click.Choice(["none", "text", "number"]),
    default="none",
    show_default=True,
    help="What of an answer is compared: all of it, its letters in lower case, or the last number in it.",
)
@click.option(
    "--tolerance",
    type=float,
    default=0.01,
    show_default=True,
    help="What may be lost against infinitely many samples: a share of the questions.",
)
@click.option(
    "--max-flip-risk",
    type=float,
    metavar="RISK",
    help="Answers are verdicts, such as pass and fail: exit with 1 if repeats change them with a chance above it.",
)
@click.option(
    "--min-pass-rate", type=float, metavar="RATE", help="Of verdicts: the pass rate that the suite must have."
)
@click.option("--passes-from", type=float, metavar="SCORE", help="Of verdicts that are scores: the least that passes.")
@format_option
def votes(
    file: str, normalize: Literal["none", "text", "number"], tolerance: float, max_flip_risk: float | None,
    min_pass_rate: float | None, passes_from: float | None, style: Literal["text", "json", "markdown"],
    **columns: str | None,
) -> None:  # fmt: skip
    """Print over how many answers of a language model to vote.

    With --max-flip-risk the answers are verdicts, and it prints how stable these are.

    FILE is a table with a row for each sample, with --question and --answer unless they are
    called so, or the log of an evaluation that sampled each question several times: of inspect-ai
    (.eval, .json), of lm-evaluation-harness (samples of --log_samples, .jsonl), of promptfoo with
    --repeat (.json, .jsonl), or details of lighteval (.parquet).

    Exits with 1 if verdicts are less stable than --max-flip-risk demands, or fewer pass than
    --min-pass-rate, with 2 if there is no result.
    """
    from ens_plugin.votes import analyze_verdicts, analyze_votes, last_number

    if max_flip_risk is None and (min_pass_rate is not None or passes_from is not None):
        raise click.UsageError("--min-pass-rate and --passes-from are about verdicts. Add --max-flip-risk 0.05.")
    found: VoteReport | VerdictReport
    is_met = True
    with only_results_on_stdout():
        table = _samples(file, **columns)
        if max_flip_risk is None:
            comparable = {"none": None, "text": lambda text: str(text).strip().lower(), "number": last_number}
            found = analyze_votes(table, normalize=comparable[normalize], tolerance=tolerance)
        else:
            found = verdicts = analyze_verdicts(
                table, passes_from=passes_from, least_pass_rate=min_pass_rate, max_risk=max_flip_risk
            )
            is_met = verdicts.is_stable and verdicts.passes
    click.echo({"text": found.__str__, "json": found.to_json, "markdown": found.to_markdown}[style]())
    if not is_met:
        click.get_current_context().exit(NOT_MET)


def _samples(
    file: str, question: str | None, answer: str | None, truth: str | None, groups: str | None
) -> pd.DataFrame:
    """Return the samples of a table, by the names of its columns, or of a log."""
    from ens_plugin.votes import read_log

    if (question is None) != (answer is None):
        raise click.UsageError("--question and --answer name two columns of a table. Give both, or none for a log.")
    if question is None and (truth or groups):
        raise click.UsageError("--truth and --groups are columns of a table. Add --question and --answer.")
    columns = {"question": question, "answer": answer, "truth": truth, "group": groups}
    names = {role: name for role, name in columns.items() if name is not None}
    is_table = names or file.lower().endswith((*CSV, *TSV, *FEATHER))
    return read_samples(file, names or None) if is_table else read_log(file)


def _log(report: EnsembleReport, request: AnalysisRequest, experiment: str | None, run_id: str | None) -> None:
    import mlflow

    from ens_plugin.tracking.log import log_report
    from ens_plugin.tracking.models import ADDRESS, logged_model_id, source_run_id

    with only_results_on_stdout(), quiet_libraries():
        uri = use_store(request.tracking_uri)
        if experiment is not None:
            check_server(uri)
            with tracking_errors(uri):
                mlflow.set_experiment(experiment)
        model_id = logged_model_id(request.model)
        if model_id is None and run_id is None and experiment is None:
            with tracking_errors(uri):
                run_id = source_run_id(request.model)
        if model_id is None and ADDRESS.fullmatch(request.model):
            model_id = request.model
        is_linked = model_id is not None and report.proof is not None
        logged = log_report(report, run_id=run_id, model_id=model_id if is_linked else None)
    notice(f"Logged to run {logged} at {without_credentials(uri)}.")
    if model_id is not None and not is_linked:
        notice(f"The report is not linked to {printable(model_id, 80)}, because Spark's own models are not compared.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    try:
        code = cli.main(args=arguments, prog_name="ens-plugin", standalone_mode=False)
    except click.ClickException as error:
        show_refusal(error)
        code = NO_RESULT
    except EnsPluginError as error:
        # What Python calls data='holdout' is an option here.
        message = re.sub("data=(['\"])holdout\\1", "--holdout", str(error))
        paragraph(f"Error: {without_secrets(message)}")
        code = NO_RESULT
    except SystemExit:
        # click raises it where the reader closed the pipe; its exit code 1 has another meaning here.
        code = NO_RESULT
    except (click.Abort, KeyboardInterrupt):
        notice("Interrupted.")
        # As a shell reports a program that Ctrl-C ended.
        code = 130
    except Exception:
        # Python would exit with 1, which here means that a requirement is not met.
        notice(without_secrets(traceback.format_exc().rstrip()))
        notice("Error: this is a defect in ens-plugin. Please report it with the lines above.")
        code = NO_RESULT
    sys.exit(code or 0)
