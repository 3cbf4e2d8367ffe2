"""Two families of diffusers on the real broker: drafts of FLUX, a transformer, that Stable Diffusion XL refines."""

import io
import pathlib
from collections.abc import Iterator

import pytest
from PIL import Image

from streams.kafka.topics import create_topics
from streams.settings import load
from streams.store.open import open_store
from tests.integration.pipeline import Pipeline, path_of
from tests.toys import Toys

pytestmark = [pytest.mark.broker, pytest.mark.torch]

LEVEL = """
[variants.{name}]
engine = "diffusers"
model = "{model}"
scheduler = ""
steps = {steps}
guidance = {guidance}
width = 64
height = 64
latency_ms = {{ 1 = {ms} }}
load_ms = 500
quality = {quality}
loading = {{ device = "cpu" }}
"""
JUDGED = """
[discriminators.look]  # draws, so that f(t) = t
engine = "profile"
folder = ""
threshold = 0.5
deferral = [{ threshold = 0.0, deferred = 0.0 }, { threshold = 1.0, deferred = 1.0 }]
latency_ms = 1

[[cascades]]
light = "light"
heavy = "heavy"
discriminator = "look"
paint_over_step = 1

[classes]
models = [{ level = "light", hardness = 0.7 }, { level = "heavy", hardness = 1.0 }]
"""
ROLES = {"front": ["classifier", "router", "discriminator", "ledger", "planner"], "worker-1": ["worker"],
         "worker-2": ["worker"]}  # fmt: skip


@pytest.fixture
def pipeline(broker_home: pathlib.Path, tmp_path: pathlib.Path, toys: Toys) -> Iterator[Pipeline]:
    light = LEVEL.format(name="light", model=toys("flux-schnell"), steps=2, guidance=0, ms=50, quality=0.8)
    heavy = LEVEL.format(name="heavy", model=toys("sdxl"), steps=4, guidance=5, ms=200, quality=1)
    catalog = tmp_path / "families.toml"
    catalog.write_text(light + heavy + JUDGED)
    kafka = {"prefix": "families", "session_timeout_ms": 20000}
    settings = load({"home": broker_home, "catalog": str(catalog), "kafka": kafka,
                     "planner": {"policy": "diffserve-static"}})  # fmt: skip
    create_topics(settings, ["light", "heavy"])
    running = Pipeline(
        settings,
        tmp_path,
        catalog=str(catalog),
        extra=["planner.worker_timeout_ms=20000"],
        roles=ROLES,
        has_models=True,
    )
    try:
        yield running.start()
    finally:
        running.close()


def test_drafts_of_flux_are_kept_or_refined_by_stable_diffusion_xl(pipeline: Pipeline) -> None:
    results = pipeline.completed(pipeline.submit(16))
    paths = [path_of(result) for result in results]
    assert {tuple(stage["level"] for stage in path) for path in paths} == {("light",), ("light", "heavy")}
    assert {path[1]["paint_over_step"] for path in paths if len(path) == 2} == {1}
    store = open_store(pipeline.settings)
    for result in results:
        with Image.open(io.BytesIO(store.get(result.image_uri or ""))) as image:
            assert image.size == (64, 64)
    assert len({result.image_sha256 for result in results}) == 16
