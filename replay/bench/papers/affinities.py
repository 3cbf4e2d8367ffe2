"""Finds the part of a sweep of the affinity model in which the verdicts on ARGUS hold.

The model has two parameters that were fitted to means (replay/bench/papers/affinity.py): a loss, here times a factor
for both strategies, and a power. What a published mean was fitted to moves with them, and is in the table.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final, NamedTuple

from replay.bench.comparison import AHEAD, in_words
from replay.bench.papers.affinity import SMALLER
from replay.bench.papers.answers import Asking, Mean, Table, number, over_seeds
from replay.bench.papers.claims import PICKSCORE, VIOLATIONS, Claim, Judged, judge
from replay.bench.papers.experiments.argus import BASE, CATALOG
from replay.bench.papers.runs.cells import AFFINITY, Cell, catalog_of
from replay.bench.papers.runs.names import ARGUS, PAC, PROTEUS

FACTORS: Final = (0.5, 1.0, 2.0)  # of the fitted losses
POWERS: Final = (0.5, SMALLER.power, 1.25)  # the fitted one, and losses that grow slower and faster than the gap
SYSTEMS: Final = (ARGUS, PAC, PROTEUS)
PUBLISHED, SMALL = 17.4, "small-sd"  # PickScore of random prompts on Small (Fig. 9)


class Place(NamedTuple):
    """A setting of the affinity model."""

    factor: float
    power: float

    @property
    def catalog(self) -> str:
        """Name of the catalog with these affinities."""
        return f"{CATALOG}{AFFINITY}={self.factor:g},{self.power:g}"


class Swept(NamedTuple):
    """The table, and in how many places of the sweep each claim holds."""

    table: Table
    places: int
    held: Mapping[str, int]

    def words(self) -> str:
        """Say where the claims hold."""
        found = ", ".join(f"{claim} in {count}" for claim, count in self.held.items())
        return f"of {self.places} settings of the affinity model: {found}"


def sweep(asking: Asking) -> Swept:
    """Run ARGUS, PAC and Proteus on Twitter's shape over the sweep; models' strategy."""
    places = [Place(factor, power) for factor in FACTORS for power in POWERS]
    places = places[:1] if asking.scale.is_quick else places
    runs = over_seeds(asking.run, {f"{at}/{p}": cell for at, place in enumerate(places)
                                   for p, cell in _cells(place).items()}, asking.scale.few)  # fmt: skip
    claims = [claim for at in range(len(places)) for claim in _claims({p: runs[f"{at}/{p}"] for p in SYSTEMS})]
    judged = judge(claims)
    width = len(judged) // len(places)
    by_place = [judged[at * width : (at + 1) * width] for at in range(len(places))]
    held = {own.claim.what: sum(each[at].verdict == AHEAD for each in by_place) for at, own in enumerate(by_place[0])}
    rows = tuple(_row(place, runs[f"{at}/{ARGUS}"], by_place[at]) for at, place in enumerate(places))
    columns = ("losses", "power", f"{SMALL}, random prompts ({PUBLISHED} in Fig. 9)", "PickScore of argus", *held)
    title = "ARGUS over a sweep of its affinity model, Twitter's shape, models alone: better by [interval]"
    return Swept(Table(title=title, columns=columns, rows=rows), len(places), held)


def _cells(place: Place) -> dict[str, Cell]:
    return {policy: dataclasses.replace(BASE, catalog=place.catalog, policy=policy) for policy in SYSTEMS}


def _claims(runs: Mapping[str, Mean]) -> list[Claim]:
    ours = runs[ARGUS]
    return [
        Claim("better images than PAC", "5 % (5.2)", ours, runs[PAC], PICKSCORE),
        Claim("better images than Proteus", "< 90 % at the peak (5.2)", ours, runs[PROTEUS], PICKSCORE),
        Claim("fewer violations than Proteus", "25 to 30 % (5.2)", ours, runs[PROTEUS], VIOLATIONS),
    ]


def _row(place: Place, ours: Mean, judged: list[Judged]) -> tuple[str, ...]:
    mean = catalog_of(place.catalog).level(SMALL).quality
    verdicts = (f"{in_words(each.difference)}, {each.verdict}" for each in judged)
    quality = ours.of("quality_in_slo")
    return f"x {place.factor:g}", f"{place.power:g}", number(mean or 0.0), number(quality), *verdicts
