"""The measurements that a plan rests on: the interval of its expected quality, and a sentence for each choice in it."""

import itertools
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from planner.catalog.evidence.estimates import share_interval
from planner.catalog.measured import CascadeKey, Difference, Measured
from planner.catalog.model import Catalog
from planner.catalog.quality import UNMEASURED
from planner.control.proposal import PlanProposal
from planner.control.wording.format import counted
from schemas.messages import Cascade

UNKNOWN = "the catalog's qualities are used as published: the number of prompts that they were measured on is unknown"


def with_evidence(proposal: PlanProposal, catalog: Catalog) -> PlanProposal:
    """The proposal with the 95 % interval of its expected quality, the prompts behind it, and what its choices rest on.

    A proposal that expects no quality stays as it is, and so does one whose catalog was measured on unknown prompts, or
    on none, but for a sentence that says so.
    """
    expected, measured = proposal.expected, catalog.measured
    if expected is not None and not catalog.has_quality:
        reason = f"{proposal.reason}; {UNMEASURED}" if UNMEASURED not in proposal.reason else proposal.reason
        evidence = f"{UNMEASURED}: measure it with `pochade profile --prompt-file FILE`"
        return replace(proposal, reason=reason, expected=replace(expected, quality=None, evidence=evidence))
    if expected is None or expected.quality is None:
        return proposal
    prompts = sum(measured.prompts) if measured else 0
    if measured is None or not prompts:
        return replace(proposal, expected=replace(expected, evidence=UNKNOWN))
    low, high = share_interval(expected.quality, prompts)
    words = "; ".join([*_levels(proposal, catalog, measured), *_cascades(proposal, measured)])
    return replace(
        proposal,
        expected=replace(expected, quality_low=low, quality_high=high, quality_prompts=prompts, evidence=words),
    )


def _levels(proposal: PlanProposal, catalog: Catalog, measured: Measured) -> Iterator[str]:
    """A sentence for each two neighbouring levels by cost of which the plan generates images on the dearer one."""
    used = {level for route in proposal.routes for level, share in route.levels.items() if share > 0}
    used |= {cascade.next_level for cascade in proposal.cascades if cascade.threshold > 0}
    judged = dict.fromkeys(level for pair in measured.gains for level in pair)  # the cheapest first, as pairs are
    by_cost = [level for level in judged if level in catalog.variants]
    for cheaper, dearer in itertools.pairwise(by_cost):
        gain = measured.gains[cheaper, dearer]
        if dearer in used and gain.is_shown(len(by_cost) - 1):
            yield f"{dearer} gains {_in_words(gain)} over {cheaper}"
        elif dearer in used:
            yield f"no gain of {dearer} over {cheaper} is shown: {_in_words(gain)}"


def _cascades(proposal: PlanProposal, measured: Measured) -> Iterator[str]:
    for cascade in proposal.cascades:
        known = measured.cascades.get(CascadeKey(cascade.level, cascade.next_level, cascade.discriminator))
        if known is None or not known.losses or cascade.threshold <= 0:
            continue
        loss = known.losses[min(bisect_left(known.thresholds, cascade.threshold), len(known.losses) - 1)]
        yield f"{_keeping(cascade)} costs {_in_words(loss)} against generating all of them on {cascade.next_level}"
        change = known.changes.get(cascade.refine_from_step)
        if change is not None:
            yield f"refining drafts from step {cascade.refine_from_step} changes {_in_words(change)} against noise"


def _keeping(cascade: Cascade) -> str:
    return f"keeping images of {cascade.level} from a confidence of {cascade.threshold:.3g} on"


def _in_words(difference: Difference) -> str:
    low, high = map(_signed, difference.interval)
    prompts = counted(difference.prompts, "prompt")
    return f"{_signed(difference.mean)} [{low}, {high}] of quality ({prompts})"


def _signed(value: float) -> str:
    rounded = round(value, 3)
    return f"{rounded:+.3f}" if rounded else "0"
