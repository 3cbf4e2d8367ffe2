"""A classifier: what tells a prompt's hardness and, where it is learned, its class under one strategy."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from planner.catalog.entries import Variant, run_ms
from planner.catalog.validate import require
from schemas.errors import Unknown

ENGINES: Final = ("rules", "learned")
TOLERANCE: Final = 0.9  # of the best level's quality. Source: ARGUS 3.2


@dataclass(frozen=True)
class Classifier:
    """What judges prompts before anything is painted. Refuses impossible values."""

    name: str
    engine: str  # "rules" | "learned"
    folder: str = ""  # relative to infra/; "": the rules and the reference that ship with planner
    strategy: str = ""  # of a learned one: whose classes it predicts
    levels: tuple[str, ...] = ()  # of a learned one: its classes, the fastest first

    def __post_init__(self) -> None:
        where = f"classifier {self.name!r}:"
        if self.engine not in ENGINES:
            raise Unknown("engine", self.engine, ENGINES)
        if self.engine == "rules":
            told = (self.strategy, self.levels)
            require(not any(told), f"{where} strategy and levels", told, "left out for rules", "use [classes]")
            return
        require(bool(self.folder), f"{where} folder", self.folder, "named", "give a folder")
        require(bool(self.strategy), f"{where} strategy", self.strategy, "named", 'give "models" or "reuse"')
        distinct = len(set(self.levels)) == len(self.levels) >= 1
        require(distinct, f"{where} levels", self.levels, "one or more, each once", "list them, the fastest first")


def variant_of(level: str) -> str:
    """The variant that paints a level: "heavy" of "heavy~k4", which begins at step 4 with a similar past picture."""
    return level.partition("~")[0]


def check_classifiers(classifiers: Iterable[Classifier], level: Callable[[str], Variant]) -> None:
    """Raise Unknown or InvalidCatalog unless they fit the variants, which `level` finds, and one another."""
    strategies = []
    for classifier in classifiers:
        times = [run_ms(level(variant_of(name)), 1) for name in classifier.levels]
        where = f"classifier {classifier.name!r}: levels"
        require(times == sorted(times), where, classifier.levels, "ordered by run time", "list the fastest first")
        strategies += [classifier.strategy] if classifier.strategy else []
    distinct = len(strategies) == len(set(strategies))
    require(distinct, "strategies of classifiers", strategies, "each once", "remove a classifier")


def fastest_good(quality: Mapping[str, float], levels: Sequence[str], tolerance: float = TOLERANCE) -> str:
    """A prompt's class: the first of `levels`, fastest first, whose quality is at least `tolerance` of the best's.

    Source: ARGUS 3.2. We differ: the reference is the best level for this prompt, which need not be the slowest.
    """
    enough = tolerance * max(quality[level] for level in levels) - 1e-9  # 0.9 * 1.0 is not exactly 0.9
    return next(level for level in levels if quality[level] >= enough)


def shortfall(quality: Mapping[str, float], levels: Sequence[str]) -> float:
    """What the first of `levels`, the fastest, lacks against the best on a prompt, >= 0: a raw score of hardness."""
    return max(quality[level] for level in levels) - quality[levels[0]]
