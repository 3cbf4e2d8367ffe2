"""Builders for tests that generate and time: levels that draw cards at once, and a catalog of three of them."""

import pathlib
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from agents.classifier.judges import Judgement
from agents.components.opening import Keeping
from agents.engines import OpenedEngine, open_engine
from agents.profiling.generation import orders, quality, rankers
from agents.profiling.generation.orders import Order
from agents.profiling.generation.quality import Marks
from agents.world.layout import SIZE
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from streams.parsing.catalog import parse
from tests.builders import a_variant

CATALOG = """# a catalog for tests
[variants.light]
engine = "profile"
model = ""
scheduler = ""
steps = 2
guidance = 1.0
width = 48
height = 48
latency_ms = { 1 = 1, 4 = 2 }  # guessed
load_ms = 1
quality = 0.5

[variants.middle]
engine = "profile"
model = ""
scheduler = ""
steps = 2
guidance = 1.0
width = 48
height = 48
latency_ms = { 1 = 2, 4 = 3 }
load_ms = 1
quality = 0.9

[variants.heavy]
engine = "profile"
model = ""
scheduler = ""
steps = 4
guidance = 2.0
width = 48
height = 48
latency_ms = { 1 = 4, 4 = 5 }
load_ms = 1
quality = 1.0

# draws
[discriminators.look]
engine = "profile"
folder = ""
threshold = 0.3
deferral = [{ threshold = 0.0, deferred = 0.0 }, { threshold = 1.0, deferred = 1.0 }]
latency_ms = 1

[[cascades]]
light = "light"
heavy = "heavy"
discriminator = "look"
paint_over_step = 2
"""


def a_small_catalog() -> Catalog:
    return parse(CATALOG, "small")


def a_level(**changes: Any) -> Variant:
    """Draws cards of the world's size in a millisecond."""
    return a_variant(**{"width": SIZE, "height": SIZE, "latency_ms": {1: 1.0}, "load_ms": 0.0, "steps": 4} | changes)


def an_order(count: int = 3, **changes: Any) -> Order:
    values: dict[str, Any] = {
        "variant": a_level(), "prompts": tuple(f"{n} red hearts" for n in range(count)), "seeds": tuple(range(count)),
    }  # fmt: skip
    return Order(**values | changes)


class StubRules:
    """Longer prompts are harder; loads nothing."""

    name = "stub"

    def classify(self, prompt: str) -> Judgement:
        return Judgement(min(len(prompt) / 200, 1.0), {}, None)


@pytest.fixture
def no_rules_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """spaCy takes seconds."""
    monkeypatch.setattr(rankers, "_rules", lambda models: StubRules())  # noqa: ARG005


@pytest.fixture
def dearer_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """All facts hold on every card of heavy and, cheaper by cheaper, on every second and every fourth caption."""

    def judge(by: str, variant: Variant, captions: Sequence[str], images: np.ndarray) -> Marks:
        marks = quality.judge(by, variant, captions, images)
        every = {"heavy": 1, "middle": 2, "light": 4}[variant.name]
        holds = np.array([zlib.crc32(caption.encode()) % every == 0 for caption in captions], float)
        return marks._replace(quality=np.where(np.isnan(marks.quality), np.nan, holds))

    monkeypatch.setattr(orders, "judge", judge)


def opening_in(home: pathlib.Path) -> Callable[..., OpenedEngine]:
    """Opens engines, whose volume and compiled code have to be in a deployment's home."""

    def opened(name: str, variant: Variant, threads: int, keeping: Keeping | None) -> OpenedEngine:
        assert keeping is not None
        assert keeping.home == home, "as the settings say"
        return open_engine(name, variant, threads, keeping)

    return opened


def a_catalog_file(folder: pathlib.Path) -> pathlib.Path:
    file = folder / "small.toml"
    file.write_text(CATALOG)
    return file
