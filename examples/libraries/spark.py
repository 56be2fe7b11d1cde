"""The same report from a Spark DataFrame, here on two cores of this machine.

Needs PySpark (``pip install 'ens-plugin[spark]'``) and Java 17 or newer.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import spark


def main() -> None:
    data = load_breast_cancer(as_frame=True)
    features = list(data.data.columns)
    forest = RandomForestClassifier(200, random_state=0).fit(data.data[::2], data.target[::2])

    # Executors are to run in the Python that this is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    rows = session.createDataFrame(data.frame[1::2]).repartition(4)

    report = spark.analyze(forest, rows, label_col="target", feature_cols=features)
    print(f"{rows.rdd.getNumPartitions()} partitions, in no order.\n")
    print(report.summary())
    session.stop()


if __name__ == "__main__":
    main()
