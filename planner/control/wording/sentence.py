"""Describes a plan in one sentence: who serves what, what is expected, its limits, and why it replaced the plan before.

`publish` writes it into `Plan.reason`, and commands, the console, logs and reports show that: this is the only place
that words a plan. A policy adds only what its plan cannot show, such as the limit that keeps it from being better.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from planner.catalog.entries import reuse_step, variant_of
from planner.control.renewal.same_plan import admitted, decide_alike
from planner.control.wording.format import counted, number, rate
from planner.serving.decisions import scores_in_words
from schemas.messages import Admission, Cascade, Expected, Plan, Route

NAMED: Final = 3  # workers, or bands of hardness, that a sentence names; more are counted
CHANGED: Final = 0.05  # of the demand; below it the demand is said to be unchanged
BETTER: Final = 0.001  # of quality, likewise


def describe(plan: Plan, before: Plan | None = None, note: str = "", why: str = "") -> str:
    """Return the sentence. `note`: the policy's; `why`: the event that called for a plan; "": its period was over."""
    parts = [_describe_service(plan), *map(describe_escalation, (each for each in plan.cascades if each.threshold > 0))]
    parts += [_describe_admission(plan.admission), note.strip("; ")]
    parts += [describe_expected(plan.expected)] if plan.allocation else []
    changed = _describe_change(plan, before, why) if before is not None else ""
    return "; ".join(part for part in [*parts, changed] if part)


def describe_workers(counts: Mapping[str, int]) -> str:
    """Describe workers by level: "2 workers of heavy and 1 of light"; "" of none."""
    named = [(level, count) for level, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])) if count]
    words = [f"{count:,} of {level}" for level, count in named]
    return _listed([f"{counted(count, 'worker')} of {level}" for level, count in named[:1]] + words[1:])


def describe_escalation(cascade: Cascade) -> str:
    """Say which images are generated again, and where."""
    begun = f", from step {cascade.refine_from_step} of the draft" if cascade.refine_from_step else ""
    images = f"images of {_level(cascade.level)}"
    images = (
        f"all {images}" if cascade.threshold >= 1 else f"{images} with a confidence below {_score(cascade.threshold)}"
    )
    return f"{images} are generated again on {cascade.next_level}{begun}"


def _score(value: float) -> str:
    """Return a score below 1 with three digits, or more where it would read as 1."""
    text = f"{value:.3g}"
    return scores_in_words(value)[0] if text == "1" else text


def describe_expected(expected: Expected | None) -> str:
    """Say how busy the busiest workers will be, or what they cannot serve, and the expected quality; "" if unknown."""
    if expected is None or expected.demand_rps <= 0:
        return ""
    at, busy = f"at {rate(expected.demand_rps, 'requests')}", expected.utilization
    words = f"{at} the busiest workers are {busy:.0%} busy"
    if busy > 1:
        words = f"{at}, {number(busy)} times what the busiest workers serve, {1 - 1 / busy:.0%} are late or rejected"
    return (
        words
        if expected.quality is None
        else f"{words}, expected quality {number(expected.quality)} on the catalog's scale"
    )


def _describe_service(plan: Plan) -> str:
    counts = Counter(plan.allocation.values())
    if not counts:
        return "no worker is live, so requests wait"
    if len(counts) == 1 and {level for route in plan.routes for level in route.levels} == counts.keys():
        return f"{describe_workers(counts)} {'serves' if counts.total() == 1 else 'serve'} all requests"
    is_served = any(variant_of(level) in counts for route in plan.routes for level in route.levels)
    return f"{describe_workers(counts)}: {_describe_routes(plan.routes)}" if is_served else describe_workers(counts)


def _describe_routes(routes: Sequence[Route]) -> str:
    """Say which requests go to which level first."""
    levels = dict.fromkeys(level for route in routes for level, share in route.levels.items() if share > 0)
    if len(levels) <= 1:
        return f"all requests go to {_listed(map(_level, levels))}"
    where = _listed(map(_level, levels), "or")
    if any(route.label and route.levels != routes[-1].levels for route in routes):
        return f"requests go to {where} by the class of their prompt"
    bands = [route for route in routes if not route.label]
    if len(bands) == 1:
        shares = [f"{share:.0%} to {_level(level)}" for level, share in bands[0].levels.items() if share > 0]
        return f"requests go by chance, {_listed(shares)}"
    if len(bands) <= NAMED and all(len(route.levels) == 1 for route in bands):
        return "requests go by the hardness of their prompt, " + _listed(map(_describe_band, bands))
    return f"requests go to {where} by the hardness of their prompt, in {len(bands)} bands"


def _describe_band(route: Route) -> str:
    (level,) = route.levels
    low, high = route.hardness_from, route.hardness_to
    where = f"below {high:.3g}" if low <= 0 else f"from {low:.3g} on" if high >= 1 else f"from {low:.3g} to {high:.3g}"
    return f"{where} to {_level(level)}"


def _level(name: str) -> str:
    """Return a level as readers know it: its variant, and the steps that stored images let it skip."""
    step = reuse_step(name)
    return f"{variant_of(name)} begun up to {counted(step, 'step')} on from stored images" if step else name


def _describe_admission(admission: Admission | None) -> str:
    shares = [f"{share:.0%} of {tier} requests" for tier, share in admitted(admission).items()]
    return f"{_listed(shares)} are admitted" if shares else ""


def _describe_change(plan: Plan, before: Plan, why: str) -> str:
    """Say why a plan replaced the one before."""
    if decide_alike(plan, before) and plan.policy == before.policy:
        return f"decides as plan {before.version} did"
    return f"changed because {_cause(plan, before, why)}"


def _cause(plan: Plan, before: Plan, why: str) -> str:
    if plan.policy != before.policy:
        return f"policy {plan.policy} plans in place of {before.policy}"
    lost, joined = before.allocation.keys() - plan.allocation.keys(), plan.allocation.keys() - before.allocation.keys()
    moves = [f"{_workers(names)} {verb}" for names, verb in ((lost, "left"), (joined, "joined")) if names]
    if why or moves:
        return why or _listed(moves)
    if plan.strategy != before.strategy:
        return f"the strategy changed from {before.strategy} to {plan.strategy}"
    was, now = (each.expected or Expected(demand_rps=0.0, utilization=0.0, heavy_share=0.0) for each in (before, plan))
    if abs(now.demand_rps - was.demand_rps) > CHANGED * max(was.demand_rps, now.demand_rps):
        verb = "rose" if now.demand_rps > was.demand_rps else "fell"
        return f"demand {verb} from {number(was.demand_rps, 2)} to {rate(now.demand_rps, 'requests')}"
    if was.quality is not None and now.quality is not None and now.quality - was.quality >= BETTER:
        return f"the expected quality rose from {number(was.quality)} to {number(now.quality)}"
    return "queues, run times or confidences changed while the demand did not"


def _workers(names: Iterable[str]) -> str:
    known = sorted(names)
    return _listed(known) if len(known) <= NAMED else counted(len(known), "worker")


def _listed(words: Iterable[str], last: str = "and") -> str:
    """Join words: "a, b and c"."""
    *others, end = [*words] or [""]
    return f"{', '.join(others)} {last} {end}" if others else end
