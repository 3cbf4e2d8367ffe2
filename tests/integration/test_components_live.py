"""Components on a running deployment: styles and outlines that requests name are in their images.

Its workers start with an empty volume, and fetch what requests name from a folder to which it was published.
"""

import io
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from agents.commands.components import components
from agents.commands.fleet import fleet
from agents.commands.plan import plan
from agents.lab.world import captions, renderer
from agents.lab.world.reading import read
from agents.lab.world.styles import ADAPTERS, BASES, POSTER, Style
from replay.reports.gallery import card_of
from replay.verify.audit.reading import audit
from schemas.messages import Status
from schemas.topics import jobs_topic
from streams.catalogs import load as load_catalog
from streams.clock import now_ms
from streams.commands.put import put
from streams.commands.requests import submit
from streams.kafka.consumers.snapshot import past
from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from streams.store.open import open_store
from streams.weights.volume import Volume
from tests.integration.pipeline import Pipeline
from tests.integration.waiting import ask

pytestmark = pytest.mark.broker

ROLES = {"front": ["classifier", "router", "discriminator", "ledger", "planner"], "worker-1": ["worker"],
         "worker-2": ["worker"]}  # fmt: skip
HEART = "a red heart"
SAFETY = ("safety.checker=mushroom", "safety.action=flag", "safety.tenants.school=block", "safety.tenants.press=blur")


@pytest.fixture(scope="module")
def settings(broker_home: pathlib.Path) -> Settings:
    kafka = {"prefix": "composed", "session_timeout_ms": 20000}
    planner = {"policy": "clipper-light", "period_ms": 1000}
    return load({"home": broker_home, "catalog": "tiny", "kafka": kafka, "planner": planner})


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("volume")


@pytest.fixture(scope="module")
def pipeline(settings: Settings, volume: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    create_topics(settings, ["light", "middle", "heavy", "styles"])
    remote = tmp_path_factory.mktemp("remote")
    shown(components, settings, "publish", "--to", str(remote))
    tiers = [f"worker.components.remote={remote}", f"worker.components.volume={volume}"]
    running = Pipeline(
        settings,
        tmp_path_factory.mktemp("logs"),
        catalog="tiny",
        extra=["planner.period_ms=1000", "planner.worker_timeout_ms=20000", *tiers, *SAFETY],
        roles=ROLES,
        has_models=True,
    )
    try:
        yield running.start()
    finally:
        running.close()


def said(settings: Settings, *words: str) -> dict[str, object]:
    """What `pochade submit ... --wait -o json` says of the result."""
    done = CliRunner().invoke(submit, [*words, "--wait", "--seed", "7", "-o", "json"], obj=lambda: settings)
    shown: dict[str, object] = json.loads(done.stdout)["result"]
    return shown


def picture(settings: Settings, shown: dict[str, object]) -> np.ndarray:
    assert shown["status"] == Status.COMPLETED, shown
    with Image.open(io.BytesIO(open_store(settings).get(str(shown["image_uri"])))) as image:
        return np.asarray(image.convert("RGB"))


def way_to(made: np.ndarray, style: Style) -> float:
    """How far an image of HEART went from poster, 0, to the style, 1."""
    scene = captions.parse(HEART)
    assert scene is not None
    plain, wanted = (renderer.render(scene, np.random.default_rng(1), to).astype(float) for to in (POSTER, style))
    return float(((made - plain) * (wanted - plain)).sum() / ((wanted - plain) ** 2).sum())


@pytest.mark.usefixtures("pipeline")
def test_an_image_of_a_forbidden_motif_is_flagged_blurred_or_blocked_as_its_tenant_has_it(settings: Settings) -> None:
    harmless = said(settings, HEART, "--model", "poster", "--tenant", "school")
    motif = ("a red mushroom", "--model", "poster")
    flagged, blocked, blurred = (said(settings, *motif, "--tenant", each) for each in ("others", "school", "press"))
    assert harmless["safety"] == ""
    assert float(str(harmless["unsafe"])) < 0.5 < float(str(flagged["unsafe"]))
    assert (flagged["safety"], blurred["safety"], blurred["unsafe"]) == ("flag", "blur", flagged["unsafe"])
    assert (blocked["status"], blocked["code"], blocked["image_uri"]) == (Status.REJECTED, "unsafe", None)
    sharp, few = ([thing.shape for thing in read(picture(settings, each)).found] for each in (flagged, blurred))
    assert (sharp, "mushroom" in few) == (["mushroom"], False)


def test_a_named_base_and_adapter_are_in_the_image_and_in_what_is_said_of_it(
    pipeline: Pipeline, settings: Settings
) -> None:
    plain = said(settings, HEART, "--model", "poster")
    restyled = said(settings, HEART, "--model", "poster", "--adapter", "mint")
    chalk = said(settings, HEART, "--model", "chalk")
    assert abs(way_to(picture(settings, plain), ADAPTERS["mint"])) < 0.2
    assert way_to(picture(settings, restyled), ADAPTERS["mint"]) > 0.6
    assert way_to(picture(settings, chalk), BASES["chalk"]) > 0.6
    assert restyled["components"] == ["base:poster", "adapter:mint@1"]
    for shown in (plain, restyled, chalk):
        assert shown["level"] == "styles"
        times = [float(str(shown[f"{part}_ms"])) for part in ("load", "encode", "denoise", "decode")]
        assert all(ms > 0 for ms in times)
        assert sum(times) == pytest.approx(
            float(str(shown["paint_ms"])), rel=0.2, abs=25
        )  # a busy machine waits between
    (result,) = pipeline.wait_all([str(restyled["request_id"])])
    assert card_of(result, open_store(settings)).result.components == ("base:poster", "adapter:mint@1")


def test_an_outline_that_was_put_says_where_the_heart_is(
    pipeline: Pipeline, settings: Settings, tmp_path: pathlib.Path
) -> None:
    scene = captions.parse("a red heart on the left")
    assert scene is not None
    file = tmp_path / "outline.png"
    Image.fromarray(renderer.silhouettes(scene)).save(file)
    uri = CliRunner().invoke(put, [str(file)], obj=lambda: settings).stdout.strip()
    led = said(settings, HEART, "--model", "poster", "--control", f"outline={uri}")
    assert [(thing.slot, thing.shape) for thing in read(picture(settings, led)).found] == [("L", "heart")]
    (result,) = pipeline.wait_all([str(led["request_id"])])
    card = card_of(result, open_store(settings))
    assert card.result.components == ("base:poster", "control:outline@1"), "as the gallery shows it"
    plain = picture(settings, said(settings, HEART, "--model", "poster"))
    assert [thing.slot for thing in read(plain).found] == ["C"]
    begun = picture(settings, said(settings, "a blue star", "--image", uri, "--strength", "1"))
    assert [thing.shape for thing in read(begun).found] == ["star"]


@pytest.mark.usefixtures("pipeline")
def test_what_does_not_exist_or_fit_is_not_sent_with_what_there_is(settings: Settings) -> None:
    for words, reason in (
        (("--adapter", "neon"), "its adapters are pastel, dusk, sepia, candy, comic, mint"),
        (("--model", "chalk", "--adapter", "mint"), "adapter mint is for poster, not for chalk"),
        (("--model", "postr"), "did you mean 'poster'"),
    ):
        done = CliRunner().invoke(submit, [HEART, *words], obj=lambda: settings)
        assert (done.exit_code, "nothing was sent" in done.stderr, reason in done.stderr) == (2, True, True)


@pytest.mark.usefixtures("pipeline")
def test_levels_are_served_beside_it(settings: Settings) -> None:
    shown = said(settings, HEART)
    assert shown["level"] == "light"
    assert shown["components"] == []
    assert shown["denoise_ms"]


def shown(command: click.Command, settings: Settings, *words: str) -> str:
    done = CliRunner().invoke(command, [*words], obj=lambda: settings)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_mlora_may_be_pinned_and_its_plan_says_what_the_worker_of_the_styles_holds(
    pipeline: Pipeline, settings: Settings
) -> None:
    """The first of two that change the policy. Demand comes from the requests before it, and from those here."""
    shown(plan, settings, "pin", "mlora")
    found: dict[str, Any] = {}

    def is_placed() -> bool:
        said(settings, HEART, "--model", "poster", "--adapter", "candy")  # else a slow machine plans for no demand
        found.update(json.loads(shown(fleet, settings, "-o", "json")))
        placed = [row for row in found["workers"] if row["variant"] == "styles" and row["wanted"]]
        return found["policy"] == "mlora" and any(not row["missing"] for row in placed)

    pipeline.until(is_placed, "a worker that holds what the plan lists for it")
    (row,) = [row for row in found["workers"] if row["variant"] == "styles"]
    assert row["wanted"]["base:poster"] == "device"
    assert "base:poster" in row["held"]["device"]
    assert row["hits"], "its jobs used components"
    assert found["components"][0]["component"] == "base:poster"
    assert found["components"][0]["popularity"] == "hot"
    assert set(found["mismatch"]) == {"styles"}
    again = said(settings, HEART, "--model", "poster", "--adapter", "candy")
    assert again["status"] == Status.COMPLETED
    assert "base:poster" in shown(plan, settings, "show")
    in_force = json.loads(shown(plan, settings, "show", "-o", "json"))
    assert in_force["dispatch"] == "least-cost"
    counted = json.loads(in_force["residency"]["memory"])["demand"]["styles"]["requests"]
    assert counted["base:poster"][0] >= 1, "a planner that starts now goes on from it"


def test_mlora_and_then_octoai_serve_what_their_workers_fetch_from_a_remote(
    pipeline: Pipeline, settings: Settings, volume: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shown(plan, settings, "pin", "mlora")
    pipeline.until(lambda: in_force(pipeline) == "mlora" and pipeline.is_ready(), "a plan of mlora that is obeyed")
    before = row_of_the_styles(settings)
    assert "adapter:dusk" not in on_volume(volume)
    restyled = said(settings, HEART, "--model", "poster", "--adapter", "dusk")
    assert restyled["components"] == ["base:poster", "adapter:dusk@1"]
    assert way_to(picture(settings, restyled), ADAPTERS["dusk"]) > 0.6
    assert {"base:poster", "adapter:dusk"} <= on_volume(volume)
    fetched = load_catalog("tiny").level("styles").offer.of_kind("adapter")["dusk"].bytes

    def is_counted() -> bool:
        now = row_of_the_styles(settings)
        counted = now["moved_bytes"]["volume"]
        is_more = counted >= before["moved_bytes"]["volume"] + fetched and now["hits"].get("remote", 0) > 0
        return (
            is_more and metric(pipeline, now["worker"], 'pochade_component_moved_bytes_total{tier="volume"}') == counted
        )

    pipeline.until(is_counted, "the bytes of an adapter, fetched from the remote, by fleet and by the metrics")

    shown(plan, settings, "pin", "octoai")
    pipeline.until(lambda: in_force(pipeline) == "octoai" and pipeline.is_ready(), "a plan of octoai that is obeyed")
    obeyed = json.loads(shown(plan, settings, "show", "-o", "json"))
    assert obeyed["dispatch"] == "pull"
    assert obeyed["scale"], "the fleet is scaled"
    plain = said(settings, HEART)
    assert (plain["status"], plain["level"]) == (Status.COMPLETED, "heavy")
    begun_ms = now_ms()
    file = tmp_path / "prompts.jsonl"
    wanted = {"prompt": HEART, "model": "poster", "adapters": ["dusk"]}
    file.write_text("".join(json.dumps({**wanted, "seed": seed}) + "\n" for seed in (1, 2, 3)))
    ids = json.loads(shown(submit, settings, "--file", str(file), "--wait", "-o", "json"))["request_ids"]
    done = pipeline.wait_all(ids)
    assert {(each.status, each.components) for each in done} == {
        (Status.COMPLETED, ("base:poster", "adapter:dusk@1")),
    }
    jobs = past(settings, [jobs_topic("styles", 0).name], keep=lambda record: record.timestamp_ms >= begun_ms)
    sent_ms = sorted(record.timestamp_ms for record in jobs)
    assert len(sent_ms) == 3
    assert min(np.diff(sent_ms)) > 40, "a job waits until the worker is idle: poster takes 100 ms"
    audited = audit(settings, with_images=False).figures
    assert audited.components_checked >= 4
    assert (audited.components_wrong, audited.components_unlisted, audited.components_undigested) == ({}, (), {})


def in_force(pipeline: Pipeline) -> str:
    return pipeline.plans[-1][1].policy


def row_of_the_styles(settings: Settings) -> dict[str, Any]:
    (row,) = (
        each for each in json.loads(shown(fleet, settings, "-o", "json"))["workers"] if each["variant"] == "styles"
    )
    return dict(row)


def on_volume(volume: pathlib.Path) -> set[str]:
    """The components whose files lie on the workers' volume."""
    opened = Volume(volume, 1 << 40)
    return {opened.manifest(digest).component for digest in opened.ready()}


def metric(pipeline: Pipeline, worker: str, sample: str) -> float:
    url = re.findall(r"health and metrics on (\S+)/livez", pipeline.log(worker))[-1]
    return next(
        (float(line.rsplit(" ", 1)[1]) for line in ask(f"{url}/metrics")[1].splitlines() if line.startswith(sample)),
        -1.0,
    )
