"""Builds the stream roles from settings and what they know, for Kafka and for one process; each loads what it needs."""

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING

from planner.catalog.model import Catalog
from streams.settings import Settings

if TYPE_CHECKING:
    from agents.classifier.judges import PromptJudge
    from agents.discriminator.fact_sample import FactSample
    from agents.discriminator.role import Discriminator
    from agents.discriminator.scorers import Scorer
    from agents.router.dispatcher import Dispatcher
    from agents.router.role import Router
    from agents.runtime.views import EndedView, FleetView, PlanView
    from streams.faust.host import StreamLogic
    from streams.store.port import ImageStore


def soft_slo_of(settings: Settings, catalog: Catalog) -> float:
    """Return the SLO of requests without a deadline, in ms, as the settings have it."""
    from planner.serving.routing.soft_deadline import soft_slo_ms

    admitted = settings.admission
    return soft_slo_ms(settings.planner.slo_s, catalog, admitted.max_backlog_s, admitted.interactive_headroom)


def classifiers_of(
    settings: Settings, catalog: Catalog, judge: "PromptJudge", fleet: "FleetView", ended: "EndedView",
    in_flight: Container[str], leaves: Callable[[], bool] = lambda: False,
) -> "list[StreamLogic]":  # fmt: skip
    """The classifier, and the one behind the batch gate. `leaves`: see `BatchClassifier`."""
    from agents.classifier.batch_gate import BatchClassifier
    from agents.classifier.role import Classifier

    classifier = Classifier(judge, catalog, settings.requests, ended, in_flight)
    return [classifier, BatchClassifier(classifier, catalog, fleet, ended, leaves)]


def router_of(
    settings: Settings, catalog: Catalog, plans: "PlanView", ended: "EndedView", dispatcher: "Dispatcher"
) -> "Router":
    """The router, with the checks and rights of features."""
    from agents.router.role import Router
    from agents.runtime.features import rights_of
    from planner.serving.features import checks_of
    from planner.serving.routing.routing import RoutingLogic, backlog_limits

    rights = rights_of(settings)
    if rights is not None:
        ended.on_end.append(rights.ended)
    limits = backlog_limits(settings.admission.max_backlog_s, settings.admission.interactive_headroom)
    start_ms = 1000 * settings.planner.scale.start_s
    checks = checks_of(settings.features, catalog)
    routing = RoutingLogic(catalog, limits, rights, ended, start_ms, soft_slo_of(settings, catalog), checks)
    return Router(routing, plans, dispatcher)


def discriminator_of(
    settings: Settings, catalog: Catalog, plans: "PlanView", ended: "EndedView", dispatcher: "Dispatcher",
    store: "ImageStore", scorers: "Mapping[str, Scorer]", sample: "FactSample | None" = None,
) -> "Discriminator":  # fmt: skip
    """The discriminator. `sample`: see there."""
    from agents.discriminator.role import Discriminator
    from planner.serving.routing.escalation import EscalationLogic

    logic = EscalationLogic(catalog, soft_slo_of(settings, catalog))
    return Discriminator(logic, plans, ended, dispatcher, store, scorers, sample, settings.worker.max_attempts)
