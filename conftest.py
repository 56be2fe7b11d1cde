"""Leave out the modules of libraries that are not installed; their tests skip themselves and say why."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("xgboost") else ["ens_plugin/adapters/xgboost_*", "tests/adapters/xgboost_*"]
