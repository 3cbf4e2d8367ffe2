"""The sums by tenant of OPERATING.md: what is not known is no 0."""

import dataclasses
import json
import re
import shutil
import subprocess

import pytest

from streams.codec.avro import result_values
from tests.paths import ROOT
from tests.replay.runs import a_result

FILTER = re.compile(r"jq -cs '([^']+)'")


def test_costs_by_tenant_count_requests_of_unknown_cost_apart() -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    (asked,) = FILTER.findall((ROOT / "streams/operator/OPERATING.md").read_text())
    costs = [("acme", 0.5), ("acme", None), ("acme", 0.25), ("studio", None), ("", None)]
    lines = "".join(
        f"{json.dumps(result_values(dataclasses.replace(a_result(), tenant=name, cost=cost)))}\n"
        for name, cost in costs
    )
    done = subprocess.run(["jq", "-cs", asked], input=lines, capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"tenant": "", "ended": 1, "cost": None, "unknown": 1},
        {"tenant": "acme", "ended": 3, "cost": 0.75, "unknown": 1},
        {"tenant": "studio", "ended": 1, "cost": None, "unknown": 1},
    ]
