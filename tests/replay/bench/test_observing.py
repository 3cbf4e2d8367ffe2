"""The baseline of what metrics cost: a process whose metrics count nothing, and serves all the same."""

import subprocess
import sys

SCRIPT = """
from replay.bench.baselines.unmeasured import silence
silence()
from prometheus_client import REGISTRY
from streams import metrics
metrics.RECORDS.labels("router").inc()
metrics.GATEWAY_OPEN.dec()
metrics.PLAN_VERSION.labels("router").set(3)
metrics.QUEUE_SECONDS.labels("router").observe(1.0)
metrics.STORE_SECONDS.observe(1.0, 2)
metrics.COMPILE_SECONDS.labels("kept").observe(1.0)
counted = [sample for family in REGISTRY.collect() if family.name.startswith("pochade_") for sample in family.samples]
assert not [sample for sample in counted if sample.value and not sample.name.endswith("_created")], counted
"""


def test_metrics_of_an_unmeasured_process_count_nothing() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
