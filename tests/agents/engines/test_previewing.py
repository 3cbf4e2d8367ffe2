"""What an image looks like between its steps, as the tiny models and the engine without a model show it."""

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from agents.engines import Generated, Previews, preview_steps, profile
from agents.engines.previewing import StepPreviews
from agents.engines.profile import ProfileEngine
from planner.catalog.options import ResolvedOptions, resolve_options
from schemas.messages import GenerateOptions
from tests.agents.engines.test_engine_over_latents import apart, at, engine, stored, tasks
from tests.builders import a_variant

pytestmark = pytest.mark.torch

Seen = tuple[int, int, int]


@pytest.mark.parametrize(
    ("wanted", "steps", "after"),
    [(1, 8, {4}), (2, 8, {2, 5}), (3, 4, {1, 2, 3}), (8, 4, {1, 2, 3}), (2, 1, set()), (3, 2, {1}), (0, 8, set())],
)
def test_previews_are_evenly_spaced_and_never_after_the_last_step(wanted: int, steps: int, after: set[int]) -> None:
    assert preview_steps(wanted, steps) == after


def shown(how: ResolvedOptions, over: Any = None, **wanted: int) -> tuple[Generated, dict[Seen, Image.Image]]:
    """A call of two tasks, and the previews that it gave."""
    seen: dict[Seen, Image.Image] = {}
    wishes = {int(task[1:]): number for task, number in wanted.items()}
    previews = Previews(wishes, lambda *at: seen.update({at[:3]: at[3]}))
    made = engine("middle").generate(tasks(over=over), how, lambda: False, previews=previews)
    assert made is not None
    return made, seen


def test_previews_near_their_own_image_step_by_step_and_change_no_bit_of_it() -> None:
    made, seen = shown(at(0), t1=3)
    assert list(seen) == [(1, 1, 4), (1, 2, 4), (1, 3, 4)]
    assert apart(made, stored()) == 0
    away = [np.abs(np.asarray(image).astype(int) - np.asarray(made.images[1])).mean() for image in seen.values()]
    assert away[2] < away[0]
    other = np.abs(np.asarray(seen[1, 3, 4]).astype(int) - np.asarray(made.images[0])).mean()
    assert away[2] < other
    assert seen[1, 1, 4].size == made.images[1].size


def test_a_refined_draft_shows_the_steps_that_are_left() -> None:
    made, seen = shown(at(2), stored().images, t0=2)
    assert list(seen) == [(0, 1, 2)]
    assert made.images


def test_a_preview_that_cannot_be_decoded_or_shown_costs_no_image() -> None:
    asked: list[int] = []

    def fails(task: int, *_seen: Any) -> None:
        asked.append(task)
        raise RuntimeError("nobody looks")

    made = engine("middle").generate(tasks(), at(0), lambda: False, previews=Previews({0: 3}, fails))
    assert made is not None
    assert (apart(made, stored()), asked) == (0, [0])  # none is tried after one that failed
    packed = StepPreviews(Previews({0: 1}, fails), tasks=1)
    pipeline = engine("middle")._pipeline
    packed.after_step(pipeline, 1, torch.zeros(1, 64, 16))
    assert asked == [0]


@pytest.mark.parametrize("tick_s", [profile.TICK_S, 1.0], ids=["in time", "it wakes only at the end"])
def test_the_engine_without_a_model_shows_its_card(tick_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "TICK_S", tick_s)
    variant, seen = a_variant(steps=4, latency_ms={1: 90.0}), list[Seen]()
    how = resolve_options(GenerateOptions(), variant)
    previews = Previews({0: 2}, lambda task, step, steps, _image: seen.append((task, step, steps)))
    assert ProfileEngine(variant).generate(tasks(0), how, lambda: False, previews=previews)
    assert seen == [(0, 1, 4), (0, 2, 4)]
