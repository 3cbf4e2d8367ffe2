"""Which cells are run: the whole grid with the chosen settings, the sweep that chooses them, or a quick part."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from replay.bench.frontier.grid import (
    COMPARED,
    FIRST_TUNING_SEED,
    FLEETS,
    REDRAWS,
    TRACES,
    TRUTHS,
    TUNING_REDRAWS,
    GridCell,
    Setting,
    fleet_of,
    peak_rps,
    swept,
)  # fmt: skip
from replay.bench.papers.runs.arrivals import TUNING
from replay.bench.papers.runs.names import HADIS, JOINT
from schemas.errors import PochadeError, Unknown
from streams.catalogs import measured

QUICK_REQUESTS: Final = 120
QUICK_POLICIES: Final = (JOINT, HADIS)
QUICK_REDRAWS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of the grid that is asked for; () stands for all."""

    catalogs: Sequence[str] = ()
    traces: Sequence[str] = ()
    truths: Sequence[str] = ()
    policies: Sequence[str] = ()
    redraws: int = REDRAWS
    first_seed: int = 0  # of the redraws that are judged

    def __post_init__(self) -> None:
        for kind, given, known in (
            ("catalog", self.catalogs, [fleet.catalog for fleet in FLEETS]),
            ("trace", self.traces, TRACES),
            ("truth", self.truths, TRUTHS),
            ("policy", self.policies, COMPARED),
        ):
            for name in given:
                if name not in known:
                    raise Unknown(f"{kind} of the grid", name, known)

    def of(self, given: Sequence[str], known: Sequence[str]) -> list[str]:
        """Return those of `known` that were asked for."""
        return [name for name in known if not given or name in given]


def judged_cells(part: Part, chosen: Mapping[str, Sequence[Setting]]) -> list[GridCell]:
    """Return the cells that are judged: every chosen setting. Raises PochadeError: a catalog has no chosen settings."""
    cells, seeds = [], range(part.first_seed, part.first_seed + part.redraws)
    if seeds.stop > FIRST_TUNING_SEED:
        raise PochadeError(
            f"seeds from {FIRST_TUNING_SEED} on are reserved for choosing settings: got {seeds.stop - 1}"
        )
    for catalog in part.of(part.catalogs, [fleet.catalog for fleet in FLEETS]):
        if not chosen.get(catalog):
            raise PochadeError(f"no settings were chosen for the catalog {catalog}: choose some with --tune")
        settings = [s for s in chosen[catalog] if not part.policies or s.policy in part.policies]
        cells += _spread(catalog, part, settings, TRACES, part.of(part.truths, TRUTHS), seeds)
    return cells


def tuning_cells(part: Part) -> list[GridCell]:
    """Return the cells that settings are chosen on: the tuning traces alone, as the catalog says, other redraws."""
    cells, seeds = [], range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + min(part.redraws, TUNING_REDRAWS))
    for catalog in part.of(part.catalogs, [fleet.catalog for fleet in FLEETS]):
        peak = peak_rps(measured(catalog), fleet_of(catalog).workers)
        tried = [setting for policy in part.of(part.policies, COMPARED) for setting in swept(policy, peak)]
        cells += _spread(catalog, part, tried, TUNING, TRUTHS[:1], seeds)
    return cells


def quick_settings(catalogs: Collection[str]) -> dict[str, list[Setting]]:
    """Return one setting of a few policies, for a run whose figures mean nothing."""
    return {catalog: [swept(policy, 1.0)[0] for policy in QUICK_POLICIES] for catalog in catalogs}


def _spread(
    catalog: str, part: Part, settings: Sequence[Setting], traces: Sequence[str], truths: Sequence[str], seeds: range
) -> list[GridCell]:
    return [
        GridCell(catalog=catalog, trace=trace, truth=truth, policy=s.policy, parameters=s.parameters, seed=seed)
        for trace in part.of(part.traces, traces)
        for truth in truths
        for seed in seeds
        for s in settings
    ]
