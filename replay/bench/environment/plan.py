"""The plan that a bench publishes in a planner's place, so that it stands still while something is measured."""

from collections.abc import Mapping, Sequence

from planner.catalog.model import Catalog
from planner.control.validity import check
from replay.bench.environment.traffic import write
from schemas.messages import Cascade, Plan, Route
from schemas.record import Outgoing
from schemas.topics import PLAN, PLAN_KEY
from streams.catalogs import load
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.settings import Settings


def catalog_of(settings: Settings) -> Catalog:
    """The catalog that the settings name."""
    return load(settings.catalog)


def publish(
    settings: Settings, levels: Mapping[str, float], allocation: Mapping[str, str], cascades: Sequence[Cascade] = ()
) -> None:
    """Have every role obey one plan: these probabilities for every request, one job a call."""
    plan = Plan(
        version=1, policy="bench", strategy="models", created_ms=now_ms(), reason="a bench needs it to stand still",
        routes=(Route(levels=dict(levels)),), cascades=tuple(cascades), allocation=dict(allocation),
    )  # fmt: skip
    check(plan, catalog_of(settings))
    write(settings, [Outgoing(topic=PLAN, key=PLAN_KEY.encode(), value=encode(plan))])
