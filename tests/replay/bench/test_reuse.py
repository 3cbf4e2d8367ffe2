"""`pochade bench reuse` from the command to its report, with the models that ship; and what it says without floors."""

import json
import pathlib
import shutil
from typing import Any

import pytest
from click.testing import CliRunner

import replay.bench.reuse
from agents.lab.profiling.reuse.file import with_caching
from planner.catalog.caching import Bounded, CachingMeasurement, RouteSavings
from planner.catalog.reuse import Neighbours
from planner.reuse.terms import Floor, GuardShares
from replay.bench.commands.bench import bench
from replay.bench.reuse import run
from schemas.errors import PochadeError
from streams.broker.process import Process
from streams.settings import load
from streams.shipped import INFRA
from streams.vectors import lite
from tests.paths import ROOT

KEYS = {
    "saved_steps_share", "exact_share", "facts_delta", "hit_rate", "misses", "cost_without_repeats", "retrieval_ms",
    "adversarial_pass_share", "paraphrase_pass_share", "against_fewer_steps",
}  # fmt: skip
NOTHING = Bounded(0.0, 0.0, 0.0)
LITTLE = [
    "--requests",
    "3",
    "--images",
    "1",
    "--rows",
    "20",
    "--lookups",
    "4",
    "--busy",
    "0",
    "--store",
    "exact",
    "-o",
    "json",
]


@pytest.fixture
def catalog(tmp_path: pathlib.Path) -> pathlib.Path:
    """The tiny catalog with floors that nobody measured."""
    file = tmp_path / "small.toml"
    shutil.copyfile(INFRA / "catalogs" / "tiny.toml", file)
    measured = CachingMeasurement(
        key="scorer", dimension=96, seed=1, requests=1200, steps=4, tolerance=0.005, exact_share=0.1,
        guard=GuardShares(equal=0.5, style=0.5), neighbours=(Neighbours(0.8, 0.5),),
        routes=(
            RouteSavings(
                share=0.5, floors=(Floor(0.8, 0.5),), hit_rate=0.25, exact_rate=0.08, saved_share=0.12,
                saved_exact_share=0.04, change=NOTHING, facts_change=NOTHING,
            ),
        ),
    )  # fmt: skip
    text = (INFRA / "profiles" / "tiny.json").read_text()
    file.with_suffix(".json").write_text(with_caching(text, {"heavy": measured}, "small.json"))
    return file


def reported(catalog: str, *asked: str) -> dict[str, Any]:
    done = CliRunner().invoke(bench, ["reuse", *LITTLE, *asked], obj=lambda: load({"catalog": catalog}))
    assert done.exit_code == 0, done.output + repr(done.exception)
    report: dict[str, Any] = json.loads(done.stdout)
    assert report.keys() >= KEYS
    return report


def test_a_stream_is_served_looked_up_and_judged(
    catalog: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay.bench.reuse, "CHILD", "tests.replay.bench.patient_lookups")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("a red heart\na blue star at night\na red heart\n")
    report = reported(str(catalog), "--prompts", str(prompts))
    assert (report["level"], report["hit_rate"], report["exact_share"]) == ("heavy~k2", 0.33333, 0.33333)
    assert report["saved_exact_share"] == pytest.approx(0.5 / 3, abs=1e-4)
    assert report["saved_steps_share"] == 0.0
    assert sum(report["misses"].values()) == 2
    assert report["retrieval_ms"]["lookups"] == 4
    assert (report["other_tenant"]["pairs"], report["other_tenant"]["hits"]) == (4, 0)
    assert report["cost_without_repeats"]["images"] == 1
    assert report["adversarial_pass_share"] <= 0.01
    assert 0.2 < report["paraphrase_pass_share"] < 0.3


def test_floors_are_not_checked_on_the_requests_that_they_were_measured_on(catalog: pathlib.Path) -> None:
    effort = {"requests": 3, "images": 1, "rows": 20, "lookups": 4, "seed": 1}
    with pytest.raises(PochadeError, match="use another --seed"):
        run(load({"catalog": str(catalog)}), effort, [], "exact")


def test_milvus_lite_runs_while_it_is_measured_and_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[tuple[pathlib.Path, Process]]()

    def measured(asked: str) -> dict[str, Any]:
        own = load(json.loads(asked)["settings"])
        record = lite.running(own)
        assert record is not None
        assert record.process is not None
        seen.append((own.home, record.process))
        raise PochadeError("the store is away")

    monkeypatch.setattr(replay.bench.reuse, "_measured", measured)
    with pytest.raises(PochadeError, match="the store is away"):
        run(load({"store": {"folder": "elsewhere"}}), {}, [], "lite")
    ((home, process),) = seen
    assert not process.is_alive()
    assert not home.exists()


def test_images_of_the_bench_stay_out_of_the_deployments_own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    monkeypatch.setattr(replay.bench.reuse, "_measured", lambda each: asked.append(each) or {})
    run(load({"store": {"url": "s3://bucket/images"}, "vectors": {"url": "exact"}}), {}, [], "")
    settings = json.loads(asked[0])["settings"]
    assert (settings["store"]["url"], settings["store"]["folder"], settings["vectors"]["url"]) == ("", "", "exact")


def test_why_a_process_that_measures_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay.bench.reuse, "CHILD", "tests.no_such_module")
    with pytest.raises(PochadeError, match="exit status 1"):
        run(load(), {}, [], "exact")
