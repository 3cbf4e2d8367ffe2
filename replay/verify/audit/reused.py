"""Checks results that began from a stored latent: that their tenant had one, and that their fields agree.

A result never says whose latent it was. So what can be held against it is, from what everybody may read:

    its fields      `reused`, `reuse_step` and `similarity` are those of its path
    its tenant      some COMPLETED result of the same tenant, begun from noise, names a stored latent
    its image       only of the engine `profile`, whose cards show the mark of the request whose latent they began from
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

from schemas.errors import PochadeError
from schemas.messages import Result, Stage, Status
from streams.operator.explain import steps_of
from streams.store.input_images import open_stored
from streams.store.marks import mark_of, shown
from streams.store.port import ImageStore, StoreUnavailable

HIT = "hit"


class Reused:
    """Takes in the first result of each request, in any order of requests."""

    def __init__(self) -> None:
        self._sources: defaultdict[str, set[str]] = defaultdict(set)  # tenant -> requests whose latents may be reused
        self._begun: list[tuple[str, str, Stage]] = []  # request, tenant, stage that began from a latent
        self.contradictory: list[str] = []  # requests whose fields are not those of their path
        self.outcomes: Counter[str] = Counter()  # hit, or the miss in a word -> stages under a plan with reuse

    def add(self, result: Result) -> None:
        """Add a result. Raises InvalidRecord: its path is none."""
        path = steps_of(result)
        for stage in path:
            if stage.reuse is not None:
                self.outcomes[HIT if stage.reuse.step else stage.reuse.miss] += 1
                if stage.reuse.step:
                    self._begun.append((result.request_id, result.tenant, stage))
        if not _agrees(result, path):
            self.contradictory.append(result.request_id)
        last = path[-1] if path else None
        is_begun_later = any(stage.reuse is not None and stage.reuse.step for stage in path)
        if result.status is Status.COMPLETED and last is not None and last.latent is not None and not is_begun_later:
            self._sources[result.tenant].add(result.request_id)

    def sourceless(self) -> list[str]:
        """Requests that began from a latent though no result of their tenant left one, as far as results were read."""
        return [name for name, tenant, _ in self._begun if not self._sources[tenant] - {name}]

    def foreign(self, store: ImageStore) -> tuple[int, list[str]]:
        """Read the marks in images; return how many were read, and a sentence for each of no source of its tenant.

        Raises StoreUnavailable.
        """
        marks = {mark_of(name): tenant for tenant, names in self._sources.items() for name in names}
        count, wrong = 0, list[str]()
        for name, tenant, stage in self._begun:
            if stage.image is None:
                continue
            try:
                data = store.get(stage.image.uri)
            except StoreUnavailable:
                raise
            except PochadeError:
                continue  # its hash is checked elsewhere
            count += 1
            if (sentence := _wrong(name, tenant, data, marks)) is not None:
                wrong.append(sentence)
        return count, wrong


def _wrong(name: str, tenant: str, data: bytes, marks: Mapping[bytes, str]) -> str | None:
    with open_stored(data) as image:
        of = marks.get(shown(image))
    if of is None:
        return f"the image of {name} began from a latent that no completed request left"
    return None if of == tenant else f"the image of {name} of tenant {tenant} began from a latent of tenant {of}"


def _agrees(result: Result, path: tuple[Stage, ...]) -> bool:
    """Whether a result's fields of reuse are those of the stages that it went through."""
    begun = [stage.reuse for stage in path if stage.reuse is not None and stage.reuse.step > 0]
    if not result.reused:
        return not begun and result.reuse_step is None and result.similarity is None
    said = result.reuse_step, result.similarity
    is_possible = all(0 < each.step < each.steps for each in begun)
    return is_possible and not result.reuse_miss and any(said == (each.step, each.similarity) for each in begun)
