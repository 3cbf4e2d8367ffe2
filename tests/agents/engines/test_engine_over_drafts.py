"""Refining drafts with the shipped models: the steps it takes, the noise it adds, and that a blank stays a blank.

The unit under test is ours and diffusers' together: a new release of theirs must not change what a step costs.
"""

import dataclasses
import importlib
from functools import cache
from typing import Any

import numpy as np
import pytest
from PIL.Image import Image

from agents.engines import CannotRefine, GenerationTask
from agents.engines.diffusers_engine import DiffusersEngine, load
from agents.engines.image_to_image import strength_of
from planner.catalog.entries import Loading, Variant
from planner.catalog.options import ResolvedOptions, resolve_options
from schemas.ids import refinement_seed
from schemas.messages import GenerateOptions
from streams import catalogs

pytestmark = pytest.mark.torch

PROMPTS = ("a red heart above a blue star", "a green tree")
SAME = 2  # of 255: rounding of the last bit differs with the batch


def level(name: str, **changes: Any) -> Variant:
    return dataclasses.replace(catalogs.load("tiny").level(name), loading=Loading(device="cpu"), **changes)


@cache
def engine(name: str, scheduler: str) -> DiffusersEngine:
    return load(level(name, scheduler=scheduler), 1)


@cache
def drafts() -> tuple[Image, ...]:
    tasks = [GenerationTask(request_id="r", prompt=prompt, seed=seed) for seed, prompt in enumerate(PROMPTS)]
    painted = engine("light", "").generate(tasks, resolve_options(GenerateOptions(), level("light")), lambda: False)
    assert painted is not None
    return tuple(painted.images)


def tasks_over(*of: int, noise: int = 1) -> list[GenerationTask]:
    """`noise`: the stage that the seeds are for."""
    return [
        GenerationTask(request_id="r", prompt=PROMPTS[n], seed=refinement_seed(n, noise), over=drafts()[n]) for n in of
    ]  # fmt: skip


def at(step: int, **options: Any) -> ResolvedOptions:
    return resolve_options(GenerateOptions(**options), level("heavy"), step)


def generated(tasks: list[GenerationTask], how: ResolvedOptions, scheduler: str = "") -> list[np.ndarray]:
    painted = engine("heavy", scheduler).generate(tasks, how, lambda: False)
    assert painted is not None
    return [np.asarray(image).astype(int) for image in painted.images]


def calls_of(tasks: list[GenerationTask], how: ResolvedOptions, scheduler: str = "") -> int:
    """How often the UNet is called."""
    calls: list[object] = []
    hook = engine("heavy", scheduler)._pipeline.unet.register_forward_hook(lambda *_: calls.append(None))
    try:
        generated(tasks, how, scheduler)
    finally:
        hook.remove()
    return len(calls)


def apart(one: np.ndarray, other: np.ndarray) -> int:
    return int(np.abs(one - other).max())


@pytest.mark.parametrize("scheduler", ["", "EulerDiscreteScheduler", "DPMSolverMultistepScheduler"])
def test_so_many_of_the_steps_are_skipped_and_no_more(scheduler: str) -> None:
    steps = level("heavy").steps
    for step in (1, steps // 2, steps - 1):
        assert calls_of(tasks_over(0, 1), at(step), scheduler) == steps - step
    assert calls_of(tasks_over(0), at(7, steps=22), scheduler) == 15  # 22 * (15 / 22) is below 15


def test_every_step_of_every_number_of_steps_has_its_strength() -> None:
    for steps in range(1, 201):
        for step in range(steps):
            strength = strength_of(step, steps)
            assert int(steps * strength) == steps - step
            assert 0 < strength <= 1


def test_the_same_draft_and_seed_give_the_same_image_alone_and_in_any_batch() -> None:
    together = generated(tasks_over(0, 1), at(3))
    turned = generated(tasks_over(1, 0), at(3))
    assert apart(generated(tasks_over(0), at(3))[0], together[0]) <= SAME
    assert max(apart(together[0], turned[1]), apart(together[1], turned[0])) <= SAME


def test_an_image_keeps_the_more_of_its_draft_the_later_it_begins() -> None:
    draft, steps = np.asarray(drafts()[0]).astype(int), level("heavy").steps
    early, late = (np.abs(generated(tasks_over(0), at(step))[0] - draft).mean() for step in (1, steps - 1))
    assert late < early


def test_other_noise_gives_another_image() -> None:
    assert apart(generated(tasks_over(0), at(1))[0], generated(tasks_over(0, noise=2), at(1))[0]) > SAME


def test_without_a_step_it_is_the_image_from_noise_before_and_after_refining() -> None:
    blank = [GenerationTask(request_id="r", prompt=PROMPTS[0], seed=5)]
    before = generated(blank, at(0))[0]
    assert apart(generated([dataclasses.replace(blank[0], over=drafts()[0])], at(0))[0], before) == 0
    generated(tasks_over(0), at(3))
    assert apart(generated(blank, at(0))[0], before) == 0


def test_refining_shares_the_weights_and_loads_nothing() -> None:
    generated(tasks_over(0), at(3))
    own, other = engine("heavy", "")._pipeline, engine("heavy", "")._over
    assert all(getattr(own, part) is getattr(other, part) for part in ("unet", "vae", "text_encoder", "scheduler"))


def test_an_image_that_nobody_wants_any_more_stops_within_one_step() -> None:
    asked: list[object] = []
    assert (
        engine("heavy", "").generate(tasks_over(0), at(1), lambda: bool(asked.append(None)) or len(asked) >= 2) is None
    )
    assert len(asked) == 2
    assert engine("heavy", "").generate(tasks_over(0), at(1), lambda: False) is not None, "the next job is generated"


def test_a_pipeline_that_diffusers_cannot_begin_with_an_image_says_so() -> None:
    unable = DiffusersEngine(importlib.import_module("diffusers").DDPMPipeline(None, None), level("heavy"))
    with pytest.raises(CannotRefine, match="DDPMPipeline cannot begin with an image"):
        unable.generate(tasks_over(0), at(3), lambda: False)
