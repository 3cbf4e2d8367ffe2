"""The effect of joint's constants and parts: each halved and doubled, or taken away, on two tuning cells.

Cells are the frontier's, on redraws that are not judged there. Constants and parts are read from the policy's own
parameters, so that none is left out.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from planner.policies.joint import PARAMETERS
from replay.bench.comparison import in_words, margin_of, paired, verdicts
from replay.bench.frontier import tuning
from replay.bench.frontier.cells import Figures
from replay.bench.frontier.grid import FIRST_TUNING_SEED, TRUTHS, TUNING_REDRAWS, GridCell
from replay.bench.papers.answers import Asking, Table
from replay.bench.papers.runs.cells import catalog_of
from replay.bench.papers.runs.names import JOINT

PLACES: Final = (("hadis-l40s", "azure-1to8"), ("diffserve-sdturbo", "twitter-normal"))  # both of TUNING
TRUTH, SLOW = TRUTHS[:2]
FACTORS: Final = (0.5, 2.0)
# Numbers that take a part away where they are 0, beside those that are whole.
SWITCHED: Final = {"remember_s": 0.0, "together_s": 0.0}
QUALITY, VIOLATIONS = "quality_run", "violation_rate"


class Variant(NamedTuple):
    """joint with one parameter changed."""

    parameter: str
    value: float


def constants() -> list[Variant]:
    """Return every constant halved and doubled, within its limits; what is 0 by default cannot be."""
    found = []
    for name, own in PARAMETERS.items():
        if own.is_whole or not own.default:
            continue
        for factor in FACTORS:
            value = min(own.high, max(own.low, factor * own.default))
            if value != own.default:
                found.append(Variant(name, value))
    return found


def parts() -> list[Variant]:
    """Return every part taken away."""
    whole = [name for name, own in PARAMETERS.items() if own.is_whole and own.default]
    return [Variant(name, 0.0) for name in whole] + [Variant(name, off) for name, off in SWITCHED.items()]


def tables(asking: Asking) -> tuple[Table, Table]:
    """Return the sensitivity of constants and the ablation of parts."""
    is_quick = asking.scale.is_quick
    places = PLACES[:1] if is_quick else PLACES
    swept, taken = (found[:1] if is_quick else found for found in (constants(), parts()))
    asked = [(*place, TRUTH, swept) for place in places]
    asked += [(*place, truth, taken) for truth in (TRUTH, SLOW) for place in places]
    cells = [
        cell
        for catalog, trace, truth, variants in asked
        for variant in (None, *variants)
        for cell in _cells(catalog, trace, truth, variant)
    ]
    distinct = list(dict.fromkeys(cells))
    known = dict(zip(distinct, asking.grid(distinct), strict=True))
    sides = [_rows(known, *each) for each in asked]
    count = len(places)
    constant = [row for rows in sides[:count] for row in rows]
    part = [row for rows in sides[count:] for row in rows]
    columns = (
        "catalog",
        "trace",
        "truth",
        "parameter",
        "value",
        "quality more by [interval]",
        "violations, points",
        "",
    )
    return (
        Table(
            title=f"{JOINT}'s constants, halved and doubled, against their defaults",
            columns=columns,
            rows=tuple(constant),
        ),
        Table(title=f"{JOINT}'s parts, taken away: against all of it", columns=columns, rows=tuple(part)),
    )


def _cells(catalog: str, trace: str, truth: str, variant: Variant | None) -> list[GridCell]:
    own = dict(tuning.fewest_violations(catalog, JOINT))
    if variant is not None:
        own[variant.parameter] = variant.value
    return [
        GridCell(
            catalog=catalog, trace=trace, truth=truth, policy=JOINT, parameters=tuple(sorted(own.items())), seed=seed
        )
        for seed in range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + TUNING_REDRAWS)
    ]


def _rows(
    known: dict[GridCell, Figures], catalog: str, trace: str, truth: str, variants: Sequence[Variant]
) -> list[tuple[str, ...]]:
    """Compare each variant with joint as it is; the verdicts of a place are one table of comparisons."""
    base = [known[cell] for cell in _cells(catalog, trace, truth, None)]
    found = [[known[cell] for cell in _cells(catalog, trace, truth, variant)] for variant in variants]
    better = [paired([run[QUALITY] for run in runs], [run[QUALITY] for run in base]) for runs in found]
    later = [paired([100 * run[VIOLATIONS] for run in runs], [100 * run[VIOLATIONS] for run in base]) for runs in found]
    margin = margin_of(catalog_of(catalog).scale)
    words = verdicts(better, margin)
    digits = 2 if margin >= 0.01 else 4
    return [
        (catalog, trace, truth, variant.parameter, f"{variant.value:g}", in_words(gain, digits), in_words(late), word)
        for variant, gain, late, word in zip(variants, better, later, words, strict=True)
    ]
