"""What the policies of a report cost, and what each saves against heavy alone and against a split by chance."""

import statistics
from collections.abc import Iterator, Mapping
from typing import Any, Final

from planner.policies import BASELINE, HEAVY_ALONE
from replay.reports.compare import seeds_of
from replay.reports.intervals import difference, interval
from replay.reports.metrics import FID, RATE, format_value, signed
from streams.visible import amount

PER_IMAGE: Final = "cost_per_image"
AGAINST: Final = {HEAVY_ALONE: f"heavy alone ({HEAVY_ALONE})", BASELINE: f"a split by chance ({BASELINE})"}

UNIT: Final = ", in the currency of a worker's price"

Report = Mapping[str, Any]


def savings(report: Report) -> list[str]:
    """Return a sentence for each policy; none where no price is stated.

    The fleet's idle time is in it, as it is paid for, too. Quality and violations stand beside what is saved: one of
    the three alone would mislead.
    """
    return [
        "; ".join(
            (f"{name}: costs {amount(row['cost'])}, {amount(row[PER_IMAGE])} an image{UNIT}", *_against(report, name))
        )
        for name, row in report["policies"].items()
        if row.get(PER_IMAGE) is not None
    ]


def _against(report: Report, name: str) -> Iterator[str]:
    ours, seeds = report["policies"][name]["by_seed"], seeds_of(report)
    for other, words in AGAINST.items():
        theirs = report["policies"].get(other, {}).get("by_seed", {})
        if name in AGAINST or PER_IMAGE not in ours or not all(theirs.get(PER_IMAGE, (0,))):
            continue
        saved = [100 * (1 - own / of) for own, of in zip(ours[PER_IMAGE], theirs[PER_IMAGE], strict=True)]
        word, saved = ("saves", saved) if sum(saved) >= 0 else ("costs more by", [-each for each in saved])
        ends = interval(saved) if len(saved) > 1 else None
        key = FID if FID in ours and FID in theirs else "quality"
        beside = []
        for figure in (each for each in (key, RATE) if each in ours and each in theirs):
            apart = difference(theirs[figure], ours[figure], seeds, seeds)
            more = _with_ends(signed(figure, apart.mean), figure, apart.interval)
            beside.append(f"{figure.replace('_', ' ')} {more}")
        share = f"{statistics.fmean(saved):.0f} %" + ("" if ends is None else " [{:.0f}, {:.0f}]".format(*ends))
        yield f"{word} {share} an image against {words}, {', '.join(beside)}"


def _with_ends(text: str, key: str, ends: list[float] | None) -> str:
    return text if ends is None else f"{text} [{', '.join(format_value(key, end) for end in ends)}]"
