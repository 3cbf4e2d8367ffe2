"""A sample of kept images is checked against its prompts' facts, and nothing waits for it."""

import asyncio
import io
import threading
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from prometheus_client import REGISTRY

from agents.discriminator.fact_sample import Facts, FactSample
from agents.lab.world import facts, renderer, scenes
from schemas.messages import ImageGenerated
from tests.builders import a_catalog, a_classified, a_job, a_request, an_image, an_image_ref
from tests.memory_store import MemoryImageStore
from tests.patience import PATIENCE_S

CATALOG = a_catalog()
SCENE = scenes.sample(np.random.default_rng(1), objects=2)
OTHER = scenes.sample(np.random.default_rng(9), objects=3)


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"pochade_{name}", labels) or 0.0


def checks(outcome: str) -> float:
    return counted("quality_checks_total", outcome=outcome)


def kept(store: MemoryImageStore, prompt: str, **changes: object) -> ImageGenerated:
    """A kept image that shows SCENE."""
    out = io.BytesIO()
    Image.fromarray(renderer.render(SCENE, np.random.default_rng(2))).save(out, "PNG")
    job = a_job(a_classified(a_request(prompt=prompt)))
    return an_image(job, image=an_image_ref(uri=store.put("j-1", out.getvalue())), **changes)


def figures() -> list[float]:
    """Sums and counts of both qualities."""
    names = [f"{kind}_quality_{end}" for kind in ("checked", "modelled") for end in ("sum", "count")]
    return [counted(name, level="light") for name in names]


def offered(image: Callable[[MemoryImageStore], ImageGenerated], share: float = 1.0) -> None:
    store = MemoryImageStore()
    sample = FactSample(share, facts.all_hold, CATALOG, store)

    async def run() -> None:
        sample.offer(image(store))
        if sample._check_in_flight is not None:
            await sample._check_in_flight

    asyncio.run(run())


def test_an_image_that_shows_what_was_asked_for_counts_as_right_and_another_as_wrong() -> None:
    before = figures()
    offered(lambda store: kept(store, SCENE.caption))
    offered(lambda store: kept(store, OTHER.caption))
    grown = [now - then for now, then in zip(figures(), before, strict=True)]
    assert grown == pytest.approx([1, 2, 2 * (CATALOG.level("light").quality or 0), 2])


@pytest.mark.parametrize("changes", [{"components": ("base:poster",)}, {}])
def test_what_cannot_be_read_is_counted_and_judged_by_nobody(changes: dict[str, object]) -> None:
    before, judged = checks("unreadable"), counted("checked_quality_count", level="light")
    prompt = SCENE.caption if changes else "a portrait of my neighbour, oil on canvas"
    offered(lambda store: kept(store, prompt, **changes))
    offered(lambda _store: an_image())  # the store has it not
    assert checks("unreadable") == before + 2
    assert counted("checked_quality_count", level="light") == judged


def test_none_is_checked_that_is_not_drawn() -> None:
    before = checks("checked"), checks("unreadable"), checks("skipped")
    offered(lambda store: kept(store, SCENE.caption), share=0.0)
    assert (checks("checked"), checks("unreadable"), checks("skipped")) == before


def test_what_comes_while_one_is_being_checked_is_skipped() -> None:
    store, lets = MemoryImageStore(), threading.Event()

    def slow(_prompt: str, _image: np.ndarray) -> bool:
        return lets.wait(PATIENCE_S)

    checker: Facts = slow
    sample, before = FactSample(1, checker, CATALOG, store), checks("skipped")

    async def run() -> None:
        for _ in range(3):
            sample.offer(kept(store, SCENE.caption))
        lets.set()
        assert sample._check_in_flight is not None
        await sample._check_in_flight

    asyncio.run(run())
    assert checks("skipped") == before + 2
