"""Components on a running deployment: styles and outlines that requests name are in their images."""

import io
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from agents.commands.fleet import fleet
from agents.commands.plan import plan
from agents.lab.world import renderer
from agents.lab.world.reading import read
from agents.lab.world.styles import ADAPTERS, BASES, POSTER, Style
from agents.world import captions
from replay.reports.gallery import card_of
from schemas.messages import Status
from streams.commands.put import put
from streams.commands.requests import submit
from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from streams.store.open import open_store
from tests.integration.pipeline import Pipeline

pytestmark = pytest.mark.integration

ROLES = {"front": ["classifier", "router", "discriminator", "ledger", "planner"], "worker-1": ["worker"],
         "worker-2": ["worker"]}  # fmt: skip
HEART = "a red heart"


@pytest.fixture(scope="module")
def settings(broker_home: pathlib.Path) -> Settings:
    kafka = {"prefix": "composed", "session_timeout_ms": 20000}
    planner = {"policy": "clipper-light", "period_ms": 1000}
    return load({"home": broker_home, "catalog": "tiny", "kafka": kafka, "planner": planner})


@pytest.fixture(scope="module")
def pipeline(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    create_topics(settings, ["light", "middle", "heavy", "styles"])
    running = Pipeline(
        settings,
        tmp_path_factory.mktemp("logs"),
        catalog="tiny",
        extra=["planner.period_ms=1000", "planner.worker_timeout_ms=20000"],
        roles=ROLES,
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
    result = pipeline.results[str(restyled["request_id"])][0]
    assert card_of(result, open_store(settings)).result.components == ("base:poster", "adapter:mint@1")


@pytest.mark.usefixtures("pipeline")
def test_an_outline_that_was_put_says_where_the_heart_is(settings: Settings, tmp_path: pathlib.Path) -> None:
    scene = captions.parse("a red heart on the left")
    assert scene is not None
    file = tmp_path / "outline.png"
    Image.fromarray(renderer.silhouettes(scene)).save(file)
    uri = CliRunner().invoke(put, [str(file)], obj=lambda: settings).stdout.strip()
    led = picture(settings, said(settings, HEART, "--model", "poster", "--control", f"outline={uri}"))
    assert [(thing.slot, thing.shape) for thing in read(led).found] == [("L", "heart")]
    plain = picture(settings, said(settings, HEART, "--model", "poster"))
    assert [thing.slot for thing in read(plain).found] == ["C"]
    begun = picture(settings, said(settings, "a blue star", "--image", uri, "--strength", "1"))
    assert [thing.shape for thing in read(begun).found] == ["star"]


@pytest.mark.usefixtures("pipeline")
def test_what_does_not_exist_or_fit_is_rejected_with_what_there_is(settings: Settings) -> None:
    for words, reason in (
        (("--adapter", "neon"), "its adapters are pastel, dusk, sepia, candy, comic, mint"),
        (("--model", "chalk", "--adapter", "mint"), "adapter mint is for poster, not for chalk"),
        (("--model", "postr"), "did you mean 'poster'"),
    ):
        shown = said(settings, HEART, *words)
        assert (shown["status"], shown["code"]) == (Status.REJECTED, "unhonoured")
        assert reason in str(shown["reason"])


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
    """The last one: it changes the policy. Demand comes from the requests before it, and from this one."""
    said(settings, HEART, "--model", "poster", "--adapter", "candy")
    shown(plan, settings, "pin", "mlora")
    found: dict[str, Any] = {}

    def is_placed() -> bool:
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
