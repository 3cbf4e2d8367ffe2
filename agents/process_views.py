"""The views that the roles of one process share."""

import contextlib
from typing import TypeVar

from agents.views import EndedView, FleetView, PlanView
from planner.catalog import Catalog
from streams.admin import create_topics
from streams.settings import Settings

View = TypeVar("View", PlanView, EndedView, FleetView)


class Views:
    """Topics are made and views opened once a process, and only when a role asks.

    By then it has loaded its models: that takes seconds and no broker, which may be away meanwhile.
    """

    def __init__(self, settings: Settings, role: str, catalog: Catalog, stack: contextlib.ExitStack) -> None:
        self._settings, self._role, self._catalog, self._stack = settings, role, catalog, stack
        self._has_topics = False
        self._plans: PlanView | None = None
        self._ended: EndedView | None = None
        self._fleet: FleetView | None = None

    def need_topics(self) -> None:
        """Raises PochadeError: what the cluster refuses."""
        if not self._has_topics:
            create_topics(self._settings, sorted(self._catalog.variants))
            self._has_topics = True

    def _opened(self, view: View) -> View:
        self.need_topics()
        self._stack.callback(view.close)  # first: starting may fail
        view.start()
        return view

    @property
    def plans(self) -> PlanView:
        if self._plans is None:
            self._plans = self._opened(PlanView(self._settings, self._role, self._catalog))
        return self._plans

    @property
    def ended(self) -> EndedView:
        if self._ended is None:
            self._ended = self._opened(EndedView(self._settings))
        return self._ended

    @property
    def fleet(self) -> FleetView:
        if self._fleet is None:
            self._fleet = self._opened(FleetView(self._settings))
        return self._fleet
