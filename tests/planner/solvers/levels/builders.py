"""Three levels, a catalog with a profile of reuse, and levels for Eq. 1."""

from planner.catalog.entries import Classifier, Variant
from planner.catalog.measured import Start
from planner.catalog.model import Catalog
from planner.catalog.reuse import Neighbours, ReuseProfile
from planner.solvers.levels.level_mix import Offer
from tests.builders import a_catalog, a_variant


def a_ladder(**changes: object) -> Catalog:
    """light, middle and heavy: 50, 12.5 and 5 images a second."""
    return a_catalog(**({"variants": three_variants()} | changes))


def a_reuse_ladder(**changes: object) -> Catalog:
    """The same, and heavy from step 10 and 20 of a similar past image: 8.3 and 25 images a second of hits alone.

    Every prompt has a neighbour, unless a test says otherwise.
    """
    plain = a_ladder()
    values = {name: getattr(plain, name) for name in ("name", "variants", "discriminators", "cascades", "class_cuts")}
    later = (Start(10, 0.6, 0.97), Start(20, 0.2, 0.9))
    learned = Classifier("past", "learned", "folder", "reuse", ("heavy~k20", "heavy~k10", "heavy"))
    values |= {"reuse": {"heavy": later}, "classifiers": {"past": learned}, "reuse_profile": a_reuse_profile()}
    return Catalog(**(values | changes))


def a_reuse_profile(**changes: object) -> ReuseProfile:
    """Every prompt has a neighbour of cosine .96, and lookups take 3 ms."""
    values = {"neighbours": (Neighbours(0.96, 1.0),), "retrieval_ms": 3.0, "retrieval_p95_ms": 8.0}
    return ReuseProfile(**(values | changes))


def three_variants() -> dict[str, Variant]:
    heavy = a_variant(name="heavy", steps=25, latency_ms={1: 200.0, 2: 240.0, 4: 400.0}, quality=1.0)
    middle = a_variant(name="middle", steps=4, latency_ms={1: 80.0}, quality=0.9)
    return {"light": a_variant(), "middle": middle, "heavy": heavy}


def offers(*levels: tuple[float, float]) -> tuple[Offer, ...]:
    """Levels v0, v1 .. of (rps, quality), the slowest first."""
    return tuple(Offer(f"v{i}", f"v{i}", rps, quality) for i, (rps, quality) in enumerate(sorted(levels)))
