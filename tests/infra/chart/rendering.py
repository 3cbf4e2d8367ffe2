"""The chart's values as Helm merges them, and its objects, where Helm is on this machine."""

import copy
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.paths import ROOT

CHART = ROOT / "infra" / "chart"
VALUE_FILES = ("laptop", "one-gpu", "200-gpus")
# the keys of `mistakes.yaml`
MISTAKES = {
    "images.pullPolicy", "settings.kafka", "kafka.prefix", "kafka.flowPartitions", "kafka.bootstrapServers",
    "roles.router", "roles.ledger.replicas", "workers.gpu.device.resource", "weights.size", "gateway.publicUrl",
}  # fmt: skip
HELM = "4.3.2"  # which tests/nightly/apiserver.py builds
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pochade" / "cluster"


def helm() -> str:
    """Return the path of Helm's binary, or skip the test."""
    built = CACHE / f"helm-{HELM}" / "helm"
    found = shutil.which("helm") or (str(built) if built.is_file() else "")
    if not found:
        pytest.skip("Helm is not on this machine: `make nightly PART=cluster` builds it, outside the tree")
    return found


def merged(values: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Values under others, as Helm merges them: tables key by key, null takes a key away."""
    found = copy.deepcopy(dict(values))
    for key, value in over.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = merged(found[key], value)
        else:
            found[key] = value
    return found


def values(name: str) -> dict[str, Any]:
    """Return the chart's values with those of a shipped file."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    return merged(defaults, yaml.safe_load((CHART / "values" / f"{name}.yaml").read_text()))


def template(*arguments: str, release: str = "images") -> "subprocess.CompletedProcess[str]":
    """Run `helm template`, with neither a cluster nor settings of this machine."""
    command = [helm(), "template", release, str(CHART), "--namespace", "art", *arguments]
    with tempfile.TemporaryDirectory() as home:
        clean = {"PATH": os.environ["PATH"], "HOME": home}
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=clean, check=False)


def of_file(name: str) -> tuple[str, ...]:
    """Return the arguments that a shipped value file is rendered with."""
    return "--values", str(CHART / "values" / f"{name}.yaml")


@functools.cache
def _rendered(name: str, strimzi: str) -> str:
    arguments = of_file(name) if not strimzi else (*of_file(name), "--set-file", f"strimzi.objects={strimzi}")
    done = template(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(name: str, strimzi: str = "") -> list[dict[str, Any]]:
    """Return the objects of a shipped value file; `strimzi`: a file of `pochade topics render strimzi`."""
    return [each for each in yaml.safe_load_all(_rendered(name, strimzi)) if each]


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Component -> the spec of its pods."""
    found = {}
    for each in objects:
        template = each["spec"].get("template") if each["kind"] in ("Deployment", "Job") else each
        if each["kind"] in ("Deployment", "Job", "Pod"):
            found[template["metadata"]["labels"]["app.kubernetes.io/component"]] = template["spec"]
    return found


def toml(objects: list[dict[str, Any]]) -> str:
    """Return the settings file of the rendered ConfigMap."""
    (found,) = (each["data"]["pochade.toml"] for each in objects if each["kind"] == "ConfigMap")
    return str(found)


def refused(said: str) -> list[str]:
    """Return the keys of the values that Helm refuses, one for each sentence."""
    sentences = re.findall(r"^\s*- at '/(\S+)': (?!validation failed)", said, re.MULTILINE)
    return [sentence.replace("/", ".") for sentence in sentences]


def schema() -> dict[str, Any]:
    """Return the chart's schema of values."""
    loaded: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    return loaded
