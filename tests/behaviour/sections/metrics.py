"""The metrics of `/metrics`: name, kind, labels and help."""

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import prometheus_client
from prometheus_client.metrics import MetricWrapperBase

from tests.behaviour.tree import ROOT, Tree, rooms, tracked

IMPORTS = re.compile(r"^\s*(?:from|import)\s+prometheus_client\b", re.M)


def record(_tree: Tree, track: Callable[[Sequence[Any]], Iterable[Any]]) -> dict[str, Any]:
    """Metric that the project defines -> kind, labels and help."""
    files = [name for name in tracked() if name.endswith(".py") and name.split("/")[0] in rooms()]
    for name in track([name for name in files if IMPORTS.search((ROOT / name).read_text())]):
        importlib.import_module(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    own = [each for each in prometheus_client.REGISTRY._collector_to_names if isinstance(each, MetricWrapperBase)]
    return {
        each._name: {"kind": each._type, "labels": list(each._labelnames), "help": each._documentation}
        for each in sorted(own, key=lambda metric: metric._name)
    }
