"""Plans made from resampled profiles, valued on fresh prompts that no profile has seen.

`fresh-tiny.npz` holds what tiny's levels made of a pool of prompts, a byte or two for each figure. It was made once, by

    pochade profile --catalog tiny --seed SEED --prompts N --drafts N --out FOLDER
    python -m tests.planner.fresh_prompts FOLDER/tiny-quality.npz FIRST

where the first FIRST prompts are those of the shipped profile.
"""

import dataclasses
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from agents.planner.observation_file import idle_workers
from agents.profiling.file import deferral
from planner.catalog.evidence.joining import with_profile
from planner.catalog.model import Catalog
from planner.catalog.profile import Profile
from planner.catalog.prompt_table import PromptTable, prompt_table
from planner.control.proposal import PlanProposal
from planner.control.wording.evidence import with_evidence
from planner.observation.observation import Observation
from planner.policies import joint
from schemas.messages import Cascade, Route
from streams import catalogs
from tests.builders import NOW_MS

FILE = Path(__file__).with_name("fresh-tiny.npz")
WORKERS = 4


class Outcome(NamedTuple):
    """A plan made from a resampled profile."""

    rps: float
    lost: float  # of all facts right, against the plan made from the fresh prompts themselves
    above: float  # by how much the expected quality is above the one on fresh prompts
    half_width: float  # of the interval of the expected quality, downwards
    costs_ms: tuple[float, ...]  # of the final images, by route as hardness rises


def outcomes(profiles: Iterable[PromptTable], fresh: PromptTable, loads: Sequence[float]) -> Iterator[Outcome]:
    """Plan at each load from each profile."""
    best = {rps: worth(planned(catalog_of(fresh), rps), fresh) for rps in loads}
    for profile in profiles:
        catalog = catalog_of(profile)
        for rps in loads:
            proposal = planned(catalog, rps)
            got, expected = worth(proposal, fresh), proposal.expected
            assert expected is not None
            assert expected.quality is not None
            half = expected.quality - (expected.quality_low or 0.0)
            yield Outcome(rps, best[rps] - got, expected.quality - got, half, costs_ms(proposal, fresh))


def resampled(profile: PromptTable, count: int) -> Iterator[PromptTable]:
    """As many prompts of the profile drawn with replacement, `count` times."""
    for seed in range(count):
        yield at(profile, np.random.default_rng(seed).integers(0, len(profile.hardness), len(profile.hardness)))


def apart(pool: PromptTable, prompts: int, count: int) -> Iterator[tuple[PromptTable, PromptTable]]:
    """So many prompts of the pool, as another profile would have, and all others of the pool, `count` times."""
    for seed in range(count):
        rows = np.random.default_rng(seed).permutation(len(pool.hardness))
        yield at(pool, rows[:prompts]), at(pool, rows[prompts:])


def planned(catalog: Catalog, rps: float) -> PlanProposal:
    """What `joint` plans for idle workers, with what it rests on."""
    seen = Observation(
        now_ms=NOW_MS, demand_rps=rps, workers=idle_workers(WORKERS, NOW_MS), slo_ms=1000 * catalog.slo_s
    )
    return with_evidence(joint.plan(seen, catalog, {}, {}), catalog)


def worth(proposal: PlanProposal, prompts: PromptTable) -> float:
    """The mean quality of a plan's answers to the prompts; that there is time for each is taken for granted."""
    answers = np.zeros(len(prompts.hardness))
    for route in proposal.routes:
        here = inside(route, prompts)
        for level, share in route.levels.items():
            quality = prompts.of(level)
            if cascade := _cascade_of(level, proposal):
                again = prompts.of(cascade.next_level)
                if cascade.refine_from_step:
                    again = prompts.over_quality[:, prompts.over_k.tolist().index(cascade.refine_from_step)]
                quality = np.where(kept(cascade, prompts), quality, again)
            answers[here] += share * quality[here]
    return float(answers.mean())


def costs_ms(proposal: PlanProposal, prompts: PromptTable) -> tuple[float, ...]:
    """The mean run time of the level that a prompt's final image is of, by route as hardness rises."""
    cost = dict(zip(prompts.levels, prompts.cost_ms.tolist(), strict=True))
    found = []
    for route in sorted(proposal.routes, key=lambda route: route.hardness_from):
        here, mean = inside(route, prompts), 0.0
        for level, share in route.levels.items():
            own = np.full(len(prompts.hardness), cost[level])
            if cascade := _cascade_of(level, proposal):
                own = np.where(kept(cascade, prompts), own, cost[cascade.next_level])
            mean += share * float(own[here].mean())
        found.append(mean)
    return tuple(found)


def falls(outcome: Outcome) -> bool:
    """Whether some prompts go to a cheaper level than easier ones: by more than 1 % of the mean run time, as a cascade
    keeps a few sure drafts of a route that else goes to the same level."""
    costs = np.array(outcome.costs_ms)
    return bool((costs[1:] < 0.99 * costs[:-1]).any())


def inside(route: Route, prompts: PromptTable) -> np.ndarray:
    """Whether each prompt is the route's, bool [n]."""
    upper = math.inf if route.hardness_to >= 1 else route.hardness_to
    return np.asarray((prompts.hardness >= route.hardness_from) & (prompts.hardness < upper))


def kept(cascade: Cascade, prompts: PromptTable) -> np.ndarray:
    """Whether the first image of each prompt is kept, bool [n]."""
    judged = f"{cascade.discriminator}: {cascade.level} > {cascade.next_level}"
    return np.asarray(prompts.confidence[:, prompts.judged.index(judged)] >= cascade.threshold)


def _cascade_of(level: str, proposal: PlanProposal) -> Cascade | None:
    return next((each for each in proposal.cascades if each.level == level and each.threshold > 0), None)


def catalog_of(prompts: PromptTable) -> Catalog:
    """`tiny` as if these were the prompts of its profile; it has no other figures of quality."""
    found = catalogs.find_profile("tiny")
    assert found is not None
    plain, profile = catalogs.load("tiny"), found.profile()
    bands = [inside(Route(levels={}, hardness_from=low, hardness_to=high), prompts)
             for low, high in zip(profile.bands, profile.bands[1:], strict=False)]  # fmt: skip
    means = {name: float(prompts.of(name).mean()) for name in profile.levels}
    variants = {
        name: dataclasses.replace(variant, quality=means.get(name, variant.quality))
        for name, variant in plain.variants.items()
    }
    plain = dataclasses.replace(plain, variants=variants)
    return with_profile(plain, _profile(profile, prompts, means, bands), prompts)


def _profile(profile: Profile, prompts: PromptTable, means: dict[str, float], bands: Sequence[np.ndarray]) -> Profile:
    levels = {
        name: dataclasses.replace(
            level, quality=means[name], quality_by_band=tuple(float(prompts.of(name)[band].mean()) for band in bands)
        )
        for name, level in profile.levels.items()
    }
    cascades = []
    for cascade in profile.cascades:
        judged = f"{cascade.discriminator}: {cascade.light} > {cascade.heavy}"
        confidence = prompts.confidence[:, prompts.judged.index(judged)]
        curves = tuple(deferral(confidence[band]) for band in bands)
        cascades.append(
            dataclasses.replace(cascade, deferral=deferral(confidence), deferral_by_band=curves, paint_over=())
        )
    return dataclasses.replace(
        profile, levels=levels, cascades=tuple(cascades), settings=None, reuse={}, caching={}
    )  # fmt: skip


def at(prompts: PromptTable, rows: np.ndarray) -> PromptTable:
    """Some rows of a table in which every draft was refined; a row may be there twice."""
    assert (prompts.over_rows == np.arange(len(prompts.hardness))).all(), "every draft was refined"
    return dataclasses.replace(
        prompts, prompts=("",) * len(rows), seeds=prompts.seeds[rows], hardness=prompts.hardness[rows],
        quality=prompts.quality[rows], facts=prompts.facts[rows], confidence=prompts.confidence[rows],
        over_rows=np.arange(len(rows)), over_quality=prompts.over_quality[rows],
        classes=prompts.classes[rows] if prompts.strategies else prompts.classes,
    )  # fmt: skip


def profiled() -> PromptTable:
    """The prompts of the shipped profile."""
    found = catalogs.find_profile("tiny")
    assert found is not None
    prompts = found.prompts()
    assert prompts is not None
    return prompts


def fresh() -> PromptTable:
    """The pool."""
    with np.load(FILE, allow_pickle=False) as kept:
        bits, over, n = kept["quality"].astype(float), kept["over_quality"].astype(float), len(kept["hardness"])
        return PromptTable(
            prompts=("",) * n, seeds=np.arange(n), hardness=kept["hardness"].astype(float),
            levels=tuple(kept["levels"].tolist()), cost_ms=kept["cost_ms"], quality=bits, facts=bits,
            judged=tuple(kept["judged"].tolist()), confidence=kept["confidence"].astype(float),
            over_rows=np.arange(n), over_k=kept["over_k"], over_quality=over,
        )  # fmt: skip


def compact(file: Path, first: int, to: Path = FILE) -> None:
    """Write the pool from a profile's table, without its first rows."""
    with np.load(file, allow_pickle=False) as arrays:
        table = prompt_table(dict(arrays), file.name)
    levels = [name for name in table.levels if "~" not in name]
    np.savez_compressed(
        to, allow_pickle=False, hardness=table.hardness[first:].astype(np.float32), levels=np.array(levels),
        cost_ms=table.cost_ms[: len(levels)], judged=np.array(table.judged),
        quality=np.stack([table.of(name)[first:] for name in levels], axis=1).astype(np.uint8),
        confidence=table.confidence[first:].astype(np.float16), over_k=table.over_k,
        over_quality=table.over_quality[first:].astype(np.uint8),
    )  # fmt: skip


if __name__ == "__main__":
    compact(Path(sys.argv[1]), int(sys.argv[2]))
