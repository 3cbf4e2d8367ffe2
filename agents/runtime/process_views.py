"""The views that the roles of one process share."""

import contextlib
from functools import cached_property
from typing import TypeVar

from agents.runtime.views import EndedView, FleetView, PlanView
from planner.catalog.parse import Catalog
from streams.codec.schema_topic import KnownSchemas, told
from streams.kafka.clients import create_topics
from streams.kafka.producer import RecordProducer, send_all
from streams.security.access_check import check_access
from streams.settings import Settings

View = TypeVar("View", PlanView, EndedView, FleetView)


class Views:
    """Topics are made and views opened once a process, and only when a role asks.

    By then it has loaded its models: that takes seconds and no broker, which may be away meanwhile.
    """

    def __init__(
        self, settings: Settings, role: str, catalog: Catalog, producer: RecordProducer, stack: contextlib.ExitStack
    ) -> None:
        self._settings, self._role, self._catalog, self._stack = settings, role, catalog, stack
        self._producer, self._has_topics = producer, False

    def need_topics(self) -> None:
        """Make them, tell what this release writes with, and learn what newer ones do.

        Raises PochadeError: what the cluster refuses, a right that a role lacks among it.
        """
        if not self._has_topics:
            variants = sorted(self._catalog.variants)
            check_access(self._settings, self._role.split("+"), variants)
            create_topics(self._settings, variants)
            send_all(self._producer, told())  # before its first record
            known = KnownSchemas(self._settings)
            self._stack.callback(known.close)
            known.start()
            self._has_topics = True

    def _opened(self, view: View) -> View:
        self.need_topics()
        self._stack.callback(view.close)  # first: starting may fail
        view.start()
        return view

    @cached_property
    def plans(self) -> PlanView:
        return self._opened(PlanView(self._settings, self._role, self._catalog))

    @cached_property
    def ended(self) -> EndedView:
        return self._opened(EndedView(self._settings))

    @cached_property
    def fleet(self) -> FleetView:
        return self._opened(FleetView(self._settings))
