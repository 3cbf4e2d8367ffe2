"""Draws the components that a run's requests name: bases, adapters with weights, and a control with its image."""

import dataclasses
import io
import random
from collections.abc import Sequence
from typing import Final

from PIL import Image, ImageDraw

from planner.catalog.components import ADAPTER, CONTROL
from planner.catalog.entries import Variant
from planner.serving.admission.inputs import input_name
from replay.load.driver import Due
from replay.verify.chaos.schedule import SLOW
from schemas.messages import GenerateOptions
from streams.store.port import ImageStore

PLAIN: Final = 0.1  # share of the requests that name no component
ADAPTED: Final = 0.7  # of those that name some: with one adapter or two
CONTROLLED: Final = 0.1  # with the control, which goes with a base and with adapters
WEIGHTS: Final = (1.0, 1.0, 0.8, 0.5)  # of an adapter, drawn evenly


def store_outline(store: ImageStore, width: int, height: int, tenant: str) -> str:
    """Store an image for controls to follow, a white ring on black, as `pochade put` does; return its URI."""
    image = Image.new("RGB", (width, height))
    ImageDraw.Draw(image).ellipse((width // 4, height // 4, 3 * width // 4, 3 * height // 4), outline="white", width=2)
    data = io.BytesIO()
    image.save(data, "PNG")
    return store.put(input_name(tenant), data.getvalue(), "png")


def with_components(requests: Sequence[Due], variant: Variant, outline: str, seed: int) -> list[Due]:
    """Return the requests, most of which name components of the variant; `outline`: URI of the image for controls.

    Requests that are faults by themselves stay as they are.
    """
    dice = random.Random(f"components/{seed}")
    return [each if each.row.wish == SLOW else _naming(each, variant, outline, dice) for each in requests]


def _naming(due: Due, variant: Variant, outline: str, dice: random.Random) -> Due:
    is_plain = dice.random() < PLAIN
    named = _sample_options(variant, outline, dice)  # sampled in any case: a share changes no other request
    if is_plain:
        return due
    options = dataclasses.replace(named, n=due.row.wish.options.n)
    return dataclasses.replace(due, row=due.row._replace(wish=dataclasses.replace(due.row.wish, options=options)))


def _sample_options(variant: Variant, outline: str, dice: random.Random) -> GenerateOptions:
    base = dice.choice((variant.bases[0], *variant.bases))  # most adapters are of the first one
    fitting = {
        kind: [each.name for each in variant.components if each.kind == kind and base in (each.bases or variant.bases)]
        for kind in (ADAPTER, CONTROL)
    }
    adapters = dice.sample(fitting[ADAPTER], k=min(dice.choice((1, 1, 2)), len(fitting[ADAPTER])))
    weights = tuple(dice.choice(WEIGHTS) for _ in adapters)
    controls = dice.sample(fitting[CONTROL], k=min(1, len(fitting[CONTROL])))
    is_adapted, is_controlled = dice.random() < ADAPTED, dice.random() < CONTROLLED
    options = GenerateOptions(model=base)
    if is_adapted and adapters:
        options = dataclasses.replace(options, adapters=tuple(adapters), adapter_weights=weights)
    if is_controlled and controls:
        options = dataclasses.replace(options, controls=tuple(controls), control_images=(outline,))
    return options
