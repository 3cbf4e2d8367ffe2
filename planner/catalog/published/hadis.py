"""What HADIS's authors published of their L40S testbed (facts/peers.md 2.4, 2.5)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from planner.catalog.curves import PairRow
from planner.catalog.published.lines import InvalidPublished, grouped, lines, number

IMAGES: Final = 4  # a prompt


class PromptFeatures(NamedTuple):
    """A caption and the counts that HADIS's router weighs. Source: HADIS 3.3, Table 1."""

    prompt: str
    prompt_length: float
    token_rarity: float
    num_objects: float
    abstractness: float
    attribute_density: float
    spatial_relations: float
    action_verbs: float
    named_entities: float


def hybrid_configs(text: str, file: str, levels: Sequence[str]) -> tuple[PairRow, ...]:
    """`light_model, heavy_model, router_ratio, disc_ratio, latency, fid` -> rows, in ms and -FID.

    `levels` name the models by their numbers. Raises InvalidPublished, also for a number without a name.
    """
    needed = ("light_model", "heavy_model", "router_ratio", "disc_ratio", "latency", "fid")
    rows = []
    for line in lines(text, file, needed):
        models = line.whole("light_model"), line.whole("heavy_model")
        if max(models) >= len(levels) or models[0] == models[1]:
            raise InvalidPublished(f"{line.where}: two of the models 0..{len(levels) - 1} are needed: got {models}")
        light, heavy = (levels[model] for model in models)
        ratios = line.number("router_ratio", 0, 1), line.number("disc_ratio", 0, 1)
        latency_ms = round(1000 * line.number("latency", 0), 6)  # 0.58 s is 580 ms, whatever 1000 * 0.58 is
        rows.append(PairRow(light, heavy, *ratios, latency_ms, -line.number("fid", 0)))
    return tuple(rows)


def scores(text: str, file: str, images: int = IMAGES) -> dict[str, tuple[tuple[float, ...], ...]]:
    """One column of P(real) a model -> model -> prompt -> image -> confidence. Raises InvalidPublished.

    They are saturated, with medians from .001 to .01: only their order means anything.
    """
    columns: dict[str, list[float]] = {}
    for line in lines(text, file, ()):
        for model, cell in line.cells.items():
            columns.setdefault(model, []).append(number(cell, f"{line.where}: {model}", 0, 1))
    return {model: grouped(values, images, f"{file}: {model}") for model, values in columns.items()}


def prompt_features(text: str, file: str) -> tuple[PromptFeatures, ...]:
    """The prompts with their counts, as they stand. Raises InvalidPublished."""
    prompt, *counts = PromptFeatures._fields
    return tuple(
        PromptFeatures(line.cells[prompt], *(line.number(count, 0) for count in counts))
        for line in lines(text, file, PromptFeatures._fields)
    )
