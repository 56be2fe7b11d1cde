"""Autologging: fits are watched, their models analyzed, and the reports logged to MLflow or other trackers."""

from __future__ import annotations

from ens_plugin.tracking.autolog.delivery import ReportUpload, deliver
from ens_plugin.tracking.autolog.upload_queue import wait_until_sent

__all__ = ["ReportUpload", "deliver", "wait_until_sent"]
