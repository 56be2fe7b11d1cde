"""
A forest through MLflow, the registry and CI
============================================

A churn model is retrained every night.  This tutorial logs a report with every fit, lets a gate decide whether the new
version may serve, cuts it to the size it needs, and makes a CI job fail when a model is too large.

Everything happens in a temporary folder with a database of SQLite.  With a tracking server, only the address differs.
"""

# %%
# A store to work in
# ------------------

import logging
import math
import os
import tempfile
from pathlib import Path

import mlflow
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

folder = Path(tempfile.mkdtemp())
os.chdir(folder)
os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
logging.getLogger("alembic").setLevel(logging.WARNING)
logging.getLogger("mlflow").setLevel(logging.ERROR)
mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
X, y = load_breast_cancer(return_X_y=True, as_frame=True)

# %%
# A report with every fit
# -----------------------
#
# One line switches it on.  From then on, the run of each fit has the report beside the parameters and metrics of
# MLflow's own autologging.  A report may take a tenth of the time of the fit or two seconds, whichever is more;
# ``math.inf`` lifts this limit.  The model is logged with cloudpickle, because MLflow's default format refuses forests.

ens_plugin.autolog(max_overhead=math.inf)
with mlflow.start_run() as run:
    forest = RandomForestClassifier(400, random_state=0).fit(X, y)
    settings = {"serialization_format": "cloudpickle", "pip_requirements": []}
    mlflow.sklearn.log_model(
        forest, name="model", registered_model_name="churn", **settings
    )
ens_plugin.autolog(disable=True)

logged = mlflow.get_run(run.info.run_id).data.metrics
for name in (
    "ens.accuracy",
    "ens.accuracy_lower",
    "ens.recommended_size",
    "ens.agreement",
):
    print(f"{name:22}{logged[name]:8.4f}")

# %%
# In MLflow's UI, the curve of the accuracy is among the run's charts and the page of the report among its artifacts:
#
# .. image:: /images/mlflow_curves.png
#    :alt: MLflow's charts of two runs: the accuracy against the number of trees, and both ends of its interval

# %%
# May this version serve?
# -----------------------
#
# A policy states what a version must meet.  It is a file of TOML, and nothing in it is executed.

Path("policy.toml").write_text(
    """
[report]
accuracy_lower.min = 0.92
agreement.min = 0.99
size_ratio.max = 5
"""
)
decision = ens_plugin.gate("models:/churn/1", "policy.toml", promote="champion")
print(decision)

# %%
# The alias moved because the version passed.  Had it failed, the alias would still be where it was, and the reasons
# would be among the tags of the version:

version = mlflow.MlflowClient().get_model_version("churn", "1")
for name in ("ens.gate", "ens.gate.reasons"):
    print(f"{name}: {version.tags[name]}")

# %%
# Cut the model to the size it needs
# ----------------------------------
#
# ``rightsize`` registers a smaller version after it has compared the two on these rows.  It moves no alias.

found = ens_plugin.rightsize("models:/churn/1", X, y)
print(found.summary())

# %%
# In a CI job
# -----------
#
# The gate and ``rightsize`` are commands too: ``ens-plugin gate models:/churn/1 --policy policy.toml``, for example.
# The exit code tells the job what to do: 0 if all is well, 1 if a requirement is not met, 2 if there is no result.
#
# ``ens-plugin recommend`` needs no registry: it judges the size of a model in a file.  Here the model may have at most
# 1.2 times the trees that it needs, and it has more:

import joblib
from click.testing import CliRunner

from ens_plugin.cli.main import cli

joblib.dump(forest, "forest.joblib")
X.assign(diagnosis=y).to_csv("train.csv", index=False)
command = "recommend forest.joblib --data train.csv --target diagnosis"
command += " --max-size-ratio 1.2"
job = CliRunner().invoke(cli, command.split())
print("$ ens-plugin", command)
print(job.stdout)
print("exit code", job.exit_code)

# %%
# :doc:`/how-to/ci` has the workflow for GitHub and GitLab, :doc:`/how-to/gate` the rest of the gate, and
# :doc:`/reference/exit-codes` all exit codes.
