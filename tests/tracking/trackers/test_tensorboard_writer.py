"""Reports in TensorBoard, read back with its own event reader."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ens_plugin import EnsembleReport, log_report
from ens_plugin.errors import EnsPluginWarning, InputError, TrackingError
from ens_plugin.tracking.log import curve_values
from ens_plugin.tracking.trackers import kind_of
from tests.extras import needs_trackers

tensorboardX: Any = pytest.importorskip(
    "tensorboardX", reason="needs tensorboardX: pip install 'ens-plugin[tensorboard]'"
)

pytestmark = needs_trackers("tensorboardX", "tensorboard")


def events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    return found.Reload()


def check(folder: Path, report: EnsembleReport, prefix: str = "ens") -> Any:
    """The scalars, images, text and files of a report are in a log directory; TensorBoard keeps 32 bits."""
    found = events(folder)
    for name in ("accuracy", "accuracy_lower", "accuracy_upper"):
        logged = [(event.step, event.value) for event in found.Scalars(f"{prefix}/{name}")]
        values = curve_values(report, prefix)[f"{prefix}/{name}"]
        assert logged == [(size, float(np.float32(value))) for size, value in values.items()]
    for name, value in report.metrics().items():
        (event,) = found.Scalars(f"{prefix}.scalars/{name}")
        assert (event.step, event.value) == (0, float(np.float32(value)))
    assert set(found.Tags()["images"]) >= {f"{prefix}/{name}" for name in ("error_curve", "agreement")}
    picture = Image.open(io.BytesIO(found.Images(f"{prefix}/error_curve")[0].encoded_image_string))
    assert picture.size == (768, 480)
    (text,) = found.Tensors(f"{prefix}/summary/text_summary")
    assert text.tensor_proto.string_val[0].decode().startswith(f"**{report.model}")
    again = EnsembleReport.from_json((folder / prefix / "report.json").read_text())
    assert again.to_dict() == report.to_dict()
    return found


def test_a_directory_of_its_own_has_the_report_and_a_band_for_the_interval(
    report: EnsembleReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

    monkeypatch.chdir(tmp_path)
    folders = [Path(log_report(report, tracker="tensorboard")) for _ in range(2)]
    assert folders[0] != folders[1], "of the same second"
    assert {folder.parent for folder in folders} == {Path("runs")}
    found = check(folders[0], report)
    layout = Layout.FromString(found.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0])
    (chart,) = layout.category[0].chart
    (band,) = chart.margin.series
    assert (band.value, band.lower, band.upper) == ("ens/accuracy", "ens/accuracy_lower", "ens/accuracy_upper")


def test_a_given_writer_stays_open_and_keeps_its_layout(report: EnsembleReport, tmp_path: Path) -> None:
    with tensorboardX.SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("mine", 1.0, 3)
        assert log_report(report, tracker=writer, prefix="forest.a") == str(tmp_path)
        writer.add_scalar("mine", 2.0, 4)
    found = check(tmp_path, report, "forest.a")
    assert [event.step for event in found.Scalars("mine")] == [3, 4]
    assert "custom_scalars__config__" not in found.Tags()["tensors"]


def test_a_second_report_in_a_writer_needs_a_prefix_of_its_own(report: EnsembleReport, tmp_path: Path) -> None:
    with tensorboardX.SummaryWriter(str(tmp_path)) as writer:
        log_report(report, tracker=writer)
        with pytest.raises(InputError, match=r"under prefix='ens' already.*prefix='ens_2'"):
            log_report(report, tracker=writer)
        log_report(report, tracker=writer, prefix="ens_2")
    check(tmp_path, report)
    check(tmp_path, report, "ens_2")


def test_a_writer_of_pytorch_is_one(report: EnsembleReport, tmp_path: Path) -> None:
    """It has the same methods, and its directory under another name."""

    class SummaryWriter:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def get_logdir(self) -> str:
            return str(self._inner.logdir)

        def __getattr__(self, name: str) -> Any:
            if name not in ("add_scalar", "add_image", "add_text", "flush"):
                raise AttributeError(name)
            return getattr(self._inner, name)

    SummaryWriter.__module__ = "torch.utils.tensorboard.writer"
    with tensorboardX.SummaryWriter(str(tmp_path)) as inner:
        writer = SummaryWriter(inner)
        assert kind_of(writer) == "tensorboard"
        assert log_report(report, tracker=writer) == str(tmp_path)
    check(tmp_path, report)


def test_pytorchs_own_writer(report: EnsembleReport, tmp_path: Path) -> None:
    written_by = pytest.importorskip("torch.utils.tensorboard", reason="needs PyTorch: pip install torch")
    with written_by.SummaryWriter(str(tmp_path)) as writer:
        assert log_report(report, tracker=writer) == str(tmp_path)
    check(tmp_path, report)


def test_the_name_of_a_model_is_no_path(
    report: EnsembleReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    monkeypatch.chdir(tmp_path)
    folder = Path(log_report(replace(report, model="../../a b"), tracker="tensorboard"))
    assert folder.parent == Path("runs")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_files_are_not_copied_to_a_remote_directory_and_a_warning_says_so(
    report: EnsembleReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with tensorboardX.SummaryWriter(str(tmp_path / "local")) as writer:
        writer.logdir = "s3://bucket/runs"
        with pytest.warns(EnsPluginWarning, match="no local folder") as caught:
            log_report(report, tracker=writer)
    assert len([found for found in caught if found.category is EnsPluginWarning]) == 1
    assert "ens/accuracy" in events(tmp_path / "local").Tags()["scalars"]
    assert not (tmp_path / "s3:").exists()


def test_a_directory_that_cannot_be_written_is_a_tracking_error(
    report: EnsembleReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(TrackingError, match="TensorBoard did not take the report"):
        log_report(report, tracker="tensorboard")
