"""Judges future answers together with recent ones: FID is of all answers together, and no mean over images.

If busy times had to be answered by cheap levels, the best mixture of all answers uses more of dear levels in quiet
times than these alone would need. So a plan's quality is what it adds to the recent answers, with weights that decay
with age. Those are the answers that plans expected, as no role reports which level answered which request.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from planner.catalog.model import Catalog, Pair
from planner.catalog.quality import Judged, mixture_quality

ANSWERS: Final = "answers"  # in a plan's memory
DIGITS: Final = 5  # of a share


class Mixture(NamedTuple):
    """How answers come about: shares that sum to 1, those of levels drawn by chance and those of discriminators."""

    by_chance: tuple[tuple[str, float], ...]  # sorted
    judged: tuple[Judged, ...] = ()

    def quality(self, catalog: Catalog) -> float | None:
        """Return its quality on the catalog's scale, blind mixtures at their lower bound; None: unknown."""
        return mixture_quality(catalog, dict(self.by_chance), self.judged)

    def is_of(self, catalog: Catalog) -> bool:
        """Whether the catalog has all its levels."""
        levels = {level for level, _ in self.by_chance}
        levels |= {level for part in self.judged for level in (part.pair.light, part.pair.heavy)}
        return levels <= catalog.served.keys()

    def with_share(self, other: "Mixture", share: float) -> "Mixture":
        """Return both as one, in which the other has this share."""
        chance, judged = defaultdict[str, float](float), defaultdict[Pair, list[float]](lambda: [0.0, 0.0, 0.0])
        for mixture, part in ((self, 1 - share), (other, share)):
            for level, own in mixture.by_chance:
                chance[level] += part * own
            for each in mixture.judged:
                known = judged[each.pair]
                judged[each.pair] = [a + part * b for a, b in zip(known, each[1:], strict=True)]
        parts = (Judged(pair, *shares) for pair, shares in judged.items())
        return Mixture(tuple(sorted(chance.items())), tuple(part for part in parts if part.share > 0))


class Pool(NamedTuple):
    """The answers before a plan, which count with those to come."""

    answers: Mixture
    requests: float  # that they count as, > 0

    def value_of(self, mixture: Mixture, requests: float, catalog: Catalog, before: float) -> float | None:
        """Return the quality that a mixture of `requests` future requests adds, per request; None if unknown.

        It is the quality of all answers less that of the earlier ones, divided by the added requests. `before`: quality
        of the earlier ones, equal for all plans of one time.
        """
        share = requests / (requests + self.requests)
        both = self.answers.with_share(mixture, share).quality(catalog)
        if share <= 0 or both is None:
            return None
        return before + (both - before) / share


def pool_of(
    memory: Mapping[str, Any], catalog: Catalog, rps: float, together_s: float, now_ms: int
) -> Pool | None:  # fmt: skip
    """Return the answers until now; None: none are known, none count, or levels are of an earlier catalog.

    `rps`: answers a second since the plan that noted them; `together_s`: how long ago they count a third (1 / e).
    """
    noted = _read(memory)
    if noted is None or together_s <= 0:
        return None
    earlier, mixture, at_ms = noted
    if not mixture.is_of(catalog) or (earlier and not earlier.answers.is_of(catalog)):
        return None
    since_s = max(0.0, (now_ms - at_ms) / 1000)
    kept = math.exp(-since_s / together_s)
    came, before = rps * together_s * (1 - kept), earlier.requests * kept if earlier else 0.0
    if came + before <= 0:
        return None
    answers = earlier.answers.with_share(mixture, came / (came + before)) if earlier else mixture
    return Pool(answers, came + before)


def memory_of(pool: Pool | None, chosen: Mixture | None, now_ms: int) -> dict[str, Any]:
    """Return what is to be remembered, in JSON's values: the answers until now, and those of the plan from now on."""
    if chosen is None:
        return {}
    before = [_written(pool.answers), float(f"{pool.requests:.4g}")] if pool else None
    return {ANSWERS: [before, _written(chosen), now_ms]}


def _written(mixture: Mixture) -> list[Any]:
    chance = [[level, round(share, DIGITS)] for level, share in mixture.by_chance]
    return [chance, [[list(each.pair), *(round(share, DIGITS) for share in each[1:])] for each in mixture.judged]]


def _read(memory: Mapping[str, Any]) -> tuple[Pool | None, Mixture, int] | None:
    try:
        before, chosen, at_ms = memory[ANSWERS]
        pool = Pool(_read_mixture(before[0]), float(before[1])) if before else None
        return pool, _read_mixture(chosen), int(at_ms)
    except (KeyError, TypeError, ValueError, IndexError):  # of an earlier release, or of none
        return None


def _read_mixture(noted: Any) -> Mixture:
    chance, judged = noted
    parts = (Judged(Pair(*pair), *map(float, shares)) for pair, *shares in judged)
    return Mixture(tuple((str(level), float(share)) for level, share in chance), tuple(parts))
