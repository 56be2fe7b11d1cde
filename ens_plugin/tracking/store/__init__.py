"""Access to the tracking store and the registry: connections, models, versions, digests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.tracking.store.connection import check_server, tracking_errors, without_credentials
    from ens_plugin.tracking.store.mlflow_chatter import no_check_messages
    from ens_plugin.tracking.store.model_version import VersionAddress, find_version, is_unchanged
    from ens_plugin.tracking.store.models import is_uri, load_model, logged_model_id
    from ens_plugin.tracking.store.scratch import scratch_folder
    from ens_plugin.tracking.store.waiting import patience

__all__ = [
    "VersionAddress",
    "check_server",
    "find_version",
    "is_unchanged",
    "is_uri",
    "load_model",
    "logged_model_id",
    "no_check_messages",
    "patience",
    "scratch_folder",
    "tracking_errors",
    "without_credentials",
]

_HOME_OF = {
    "VersionAddress": "ens_plugin.tracking.store.model_version",
    "check_server": "ens_plugin.tracking.store.connection",
    "find_version": "ens_plugin.tracking.store.model_version",
    "is_unchanged": "ens_plugin.tracking.store.model_version",
    "is_uri": "ens_plugin.tracking.store.models",
    "load_model": "ens_plugin.tracking.store.models",
    "logged_model_id": "ens_plugin.tracking.store.models",
    "no_check_messages": "ens_plugin.tracking.store.mlflow_chatter",
    "patience": "ens_plugin.tracking.store.waiting",
    "scratch_folder": "ens_plugin.tracking.store.scratch",
    "tracking_errors": "ens_plugin.tracking.store.connection",
    "without_credentials": "ens_plugin.tracking.store.connection",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
