"""Summarises a report in sentences: which policy is best within a limit of violations, and by how much."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from planner.policies.random_split import PARAMETERS
from replay.reports.compare import BETTER, CANNOT_TELL, SAME, WORSE, seeds_of, verdict
from replay.reports.cost import savings
from replay.reports.intervals import Difference, difference
from replay.reports.metrics import FID, OF, RATE, format_value

LIMITS = (0.005, 0.01, 0.02, 0.05)  # of the violation rate
HEADLINE = 0.02  # the limit that the page's title is about
SHARE = "heavy_share"  # of the baseline: a parameter, and the figure of what ran
MAX_SHARE_GAP = 0.02  # between both, which chance may make

INDISTINGUISHABLE = "cannot be distinguished from"
OF_QUALITY = {BETTER: "better", WORSE: "worse", SAME: "equal", CANNOT_TELL: "not distinguishable"}
OF_VIOLATIONS = OF_QUALITY | {BETTER: "fewer", WORSE: "more"}

Report = Mapping[str, Any]


class Best(NamedTuple):
    """The best policy within a limit of violations."""

    limit: float
    policy: str | None  # None: none keeps the limit
    value: float | None = None  # of `judged_by`
    runner_up: str | None = None  # the next best within the limit; None: there is no other
    apart: Difference | None = None  # the best's above the runner-up's
    word: str = ""  # that the difference deserves


def judged_by(report: Report) -> str:
    """Return the key of the quality metric: `fid` where a report has it, else `quality`."""
    return FID if any(figures[FID] is not None for figures in report["policies"].values()) else "quality"


def bests(report: Report) -> list[Best]:
    """Return the best policy within each of LIMITS; nothing where quality is unknown."""
    return [best(report, limit) for limit in LIMITS]


def best(report: Report, limit: float) -> Best:
    """Return the best policy that keeps a limit on average, and how sure it is that the next one is worse."""
    key = judged_by(report)
    within = [
        name
        for name, figures in report["policies"].items()
        if figures[key] is not None and figures["violation_rate"] is not None and figures["violation_rate"] <= limit
    ]
    order = sorted(within, key=lambda name: _rank(report, name, key))
    if not order:
        return Best(limit, None)
    value = report["policies"][order[0]][key]
    if len(order) == 1:
        return Best(limit, order[0], value)
    apart = above(report, order[1], order[0], key)
    return Best(limit, order[0], value, order[1], apart, verdict(OF[key], apart))


def above(report: Report, first: str, second: str, key: str) -> Difference:
    """Return by how much a figure of the second policy is above the first's, seed by seed."""
    seeds = seeds_of(report)
    before, after = (report["policies"][name]["by_seed"][key] for name in (first, second))
    return difference(before, after, seeds, seeds)


def _rank(report: Report, name: str, key: str) -> float:
    value = float(report["policies"][name][key])
    return value if key == FID else -value


def headline(report: Report) -> str:
    """Return the title of the page."""
    found, key = best(report, HEADLINE), judged_by(report)
    if found.policy is None:
        rates = {name: figures["violation_rate"] for name, figures in report["policies"].items()}
        known = {name: rate for name, rate in rates.items() if rate is not None}
        if not known:
            return "No request, no verdict"
        least = min(known, key=lambda name: known[name])
        fewest = format_value("violation_rate", known[least])
        return f"No policy keeps violations under {100 * HEADLINE:g} %: the fewest are {least}'s, {fewest}"
    name = "FID" if key == FID else "quality"
    leader = f"{found.policy} is best: {name} {format_value(key, found.value)}"
    text = f"With at most {100 * HEADLINE:g} % violations {leader}"
    if found.runner_up is None:
        return f"{text}; no other policy keeps that limit"
    compared = against(found, key)
    return f"{text}, {'which ' if compared.startswith(INDISTINGUISHABLE) else ''}{compared}"


def against(found: Best, key: str) -> str:
    """Compare the best with the runner-up, in words."""
    if found.apart is None:
        return "no other policy keeps it"
    if found.word == SAME:
        return f"the same as {found.runner_up}"
    size = format_value(key, abs(found.apart.mean))
    if found.apart.interval is None and size == format_value(key, 0.0):
        return f"level with {found.runner_up} in the one seed that was run"
    if found.apart.interval is None:
        return f"{size} better than {found.runner_up} in the one seed that was run"
    low, high = sorted(abs(end) for end in found.apart.interval)
    if found.word == CANNOT_TELL:
        return f"{INDISTINGUISHABLE} {found.runner_up}"
    return f"{size} better than {found.runner_up} (95 % interval {format_value(key, low)} to {format_value(key, high)})"


def remarks(report: Report) -> list[str]:
    """Return the remarks below the title: against chance, what is saved, and the number of seeds."""
    found, key = best(report, HEADLINE), judged_by(report)
    said = []
    chance = report["baseline"]
    if chance not in report["policies"]:
        said.append(f"{chance} was not simulated, so the gain by judging prompts and images is not shown.")
    else:
        if found.policy not in (None, chance):
            said.append(_against_chance(report, str(found.policy), chance, key))
        said += _share_that_ran(report, chance)
    said += savings(report)
    if report["setup"]["seeds"] == 1:
        said.append("One seed was run, which does not show how much of a difference is chance. Add --seeds 10.")
    return said


def _against_chance(report: Report, policy: str, chance: str, key: str) -> str:
    """Say both figures, quality and violations, of the best policy and of the baseline: one alone would mislead."""
    ours, theirs = report["policies"][policy], report["policies"][chance]
    if theirs[key] is None or ours[key] is None:
        return f"{chance} has no answers to compare with."
    text = f"{chance}, which routes requests to the heavy model at random, has {_both(theirs, key)}"
    text += f"; {policy} has {_both(ours, key)}"
    if report["setup"]["seeds"] == 1:
        return f"{text}."
    quality = OF_QUALITY[verdict(OF[key], above(report, chance, policy, key))]
    violations = OF_VIOLATIONS[verdict(OF[RATE], above(report, chance, policy, RATE))]
    name = "FID" if key == FID else "quality"
    return f"{text}. {policy} beside {chance}: {name} {quality}, violations {violations}."


def _share_that_ran(report: Report, chance: str) -> list[str]:
    """Say where the baseline answered another share by the best level than it was asked for: it cost another amount."""
    own, ran = report["setup"]["parameters"].get(chance, {}), report["policies"][chance]["heavy_share"]
    asked = own.get(SHARE, PARAMETERS[SHARE].default)
    levels = {level for policy in report["policies"].values() for level in policy["by_level"]}
    if ran is None or abs(asked - ran) <= MAX_SHARE_GAP or len(levels) < 2:
        return []
    why = "a request that one level would end too late goes to another, or ends unanswered"
    if report["setup"]["workers"] == 1 and "scaling" not in report["setup"]:
        why = "one worker cannot hold two models"
    return [
        f"{chance} was asked to answer {100 * asked:g} % of the requests by the best level, but {100 * ran:.1f} % of "
        f"its answers are by that level: {why}."
    ]


def _both(figures: Mapping[str, Any], key: str) -> str:
    quality = f"{'FID' if key == FID else 'quality'} {format_value(key, figures[key])}"
    return f"{quality} at {format_value(RATE, figures[RATE])} violations"
