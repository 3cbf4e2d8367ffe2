"""A catalog with the full published files instead of the figures re-typed from them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from planner.catalog.model import Catalog
from planner.catalog.published import diffserve, hadis
from schemas.errors import Unknown

LIGHT, HEAVY = "sdturbo", "sdv15"  # what DiffServe's files call the two models of any cascade


def with_published(catalog: Catalog, texts: Mapping[str, tuple[str, str]]) -> Catalog:
    """The catalog with the files of some kinds; a kind's value is (text, file as messages call it).

    "runtimes" and "discriminator" are of the first cascade, "hybrid_configs" number the variants in their order. Raises
    Unknown for another kind, InvalidPublished or InvalidCatalog for what a file holds.
    """
    for kind, (text, file) in texts.items():
        if kind not in _KINDS:
            raise Unknown("kind of published file", kind, _KINDS)
        catalog = _KINDS[kind](catalog, text, file)
    return catalog


def _runtimes(catalog: Catalog, text: str, file: str) -> Catalog:
    measured = diffserve.runtimes(text, file)
    names = {LIGHT: catalog.pair().light, HEAVY: catalog.pair().heavy}
    faster = {
        names[model]: replace(catalog.level(names[model]), latency_ms=times)
        for model, times in measured.items()
        if model in names
    }
    return replace(catalog, variants=catalog.variants | faster)


def _discriminator(catalog: Catalog, text: str, file: str) -> Catalog:
    name = catalog.pair().discriminator
    means = [sum(images) / len(images) for images in diffserve.discriminator(text, file)]
    judged = replace(catalog.discriminator(name), deferral=diffserve.curve_of(means))
    return replace(catalog, discriminators=catalog.discriminators | {name: judged})


def _hybrid_configs(catalog: Catalog, text: str, file: str) -> Catalog:
    return replace(catalog, pair_rows=hadis.hybrid_configs(text, file, tuple(catalog.variants)))


_KINDS: Final[dict[str, Callable[[Catalog, str, str], Catalog]]] = {
    "runtimes": _runtimes,
    "discriminator": _discriminator,
    "hybrid_configs": _hybrid_configs,
}
