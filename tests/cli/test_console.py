from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest

from ens_plugin.cli.console import only_results_on_stdout, paragraph, quiet_libraries, write_text
from ens_plugin.errors import InputError, WeakEstimateWarning
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = MLFLOW_WARNINGS


def test_what_others_print_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with only_results_on_stdout():
        print("chatter")
        warnings.warn("few rows", WeakEstimateWarning, stacklevel=1)
    print("result")
    out, err = capsys.readouterr()
    assert out == "result\n"
    assert err == "chatter\nWarning: few rows\n"


def test_only_errors_are_logged_inside_and_everything_again_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("mlflow.store.db.utils")
    with quiet_libraries():
        logging.getLogger("alembic").warning("chatter")
        logger.error("trouble")
    logger.warning("afterwards")
    assert caplog.messages == ["trouble", "afterwards"]


def test_mlflow_prints_only_the_errors_that_it_logs(capsys: pytest.CaptureFixture[str]) -> None:
    from mlflow.utils.logging_utils import eprint

    with quiet_libraries():
        eprint("Created version '1' of model 'churn'.")
        logging.getLogger("mlflow.tracking").error("trouble")
    eprint("afterwards")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("ERROR mlflow.tracking: trouble")
    assert second == "afterwards"


def test_paragraphs_are_80_columns_wide_and_leave_addresses_whole(capsys: pytest.CaptureFixture[str]) -> None:
    address = "https://registry.example/api/2.0/mlflow-artifacts/" + "deep/" * 12 + "model-of-may.bin"
    paragraph(f"Error: nothing answers at {address}; 99.5 % of what was requested is there. " + 8 * "And more. ")
    paragraph("one\n" + "two " * 30)
    err = capsys.readouterr().err
    lines = err.splitlines()
    assert address + ";" in lines
    assert all(len(line) <= 80 for line in lines if address not in line)
    assert "99.5 %" in err
    assert lines.count("one") == 1
    assert "\xa0" not in err


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path / "taken", "text")
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path / "nowhere" / "file", "text")
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]
