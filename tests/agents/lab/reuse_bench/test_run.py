"""The whole report: what is in it without floors, and what is wanted of each figure."""

import contextlib
import pathlib
import shutil
from typing import Any

import pytest

from agents.components.opening import Keeping
from agents.engines import OpenedEngine
from agents.lab.family import VARIANTS
from agents.lab.profiling.reuse.file import without_caching
from agents.lab.reuse_bench import run
from agents.lab.reuse_bench.effort import Effort
from agents.lab.reuse_bench.served import NO_FIGURES
from planner.reuse.guard import Comparison, Verdict
from streams.settings import load
from streams.shipped import INFRA
from tests.agents.worker.reusing import LatentEngine

COST = {"cost_without_repeats": {"value": 0.01}, "retrieval_ms": {"p50": 2.0}}


def test_without_floors_the_other_figures_are_given_and_the_reason_is_told(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plain.toml"
    shutil.copyfile(INFRA / "catalogs" / "tiny.toml", file)
    profile = without_caching((INFRA / "profiles" / "tiny.json").read_text())
    file.with_suffix(".json").write_text(profile)
    routes = list[str]()

    def among_rows(_place: Any, route: Any, *_rest: Any) -> dict[str, Any]:
        routes.append(route.level)
        return COST

    def opened(_name: str, _variant: object, _threads: int, keeping: Keeping) -> OpenedEngine:
        assert keeping.home == tmp_path
        return OpenedEngine(LatentEngine())

    monkeypatch.setattr(run, "open_engine", opened)
    monkeypatch.setattr(run, "among_rows", among_rows)
    monkeypatch.setattr(run, "_collection", lambda place, *_of: contextlib.nullcontext(place))
    settings = load({"home": str(tmp_path), "catalog": str(file), "vectors": {"url": "exact"}})
    report = run.run(settings, Effort(), lambda *_done: None, lambda *_pair: Comparison(Verdict.EQUAL))
    assert report["note"].startswith("no floors were measured: nothing is reused")
    assert {name: report[name] for name in NO_FIGURES} == NO_FIGURES
    assert report["adversarial_pass_share"] == 1.0
    assert {name: report[name] for name in COST} == COST
    assert routes == [f"heavy~k{VARIANTS['heavy'].steps - 1}"]
    assert {name: each["met"] for name, each in report["targets"].items()} == {
        "adversarial_pass_share": False, "cost_without_repeats": True,
        "retrieval_ms": True,
    }  # fmt: skip


def test_a_server_may_take_longer_than_a_store_on_this_machine() -> None:
    def met(store: str) -> bool:
        return bool(run.targets({"store": store, "retrieval_ms": {"p50": 6.0}})["retrieval_ms"]["met"])

    assert met("https://milvus:19530")
    assert not met("lite")


def test_a_loss_is_held_to_the_worse_end_of_its_interval() -> None:
    def bound_met(low: float) -> bool:
        return bool(run.targets({"quality_delta": {"value": 0.0, "ci": [low, 0.02]}})["quality_loss_bound"]["met"])

    assert bound_met(-0.004)
    assert bound_met(0.01)
    assert not bound_met(-0.006)
