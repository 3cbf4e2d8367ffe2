"""What is promised of the images that answer a request, and the level that a promise asks for.

A request that states `quality_at_least` is answered by an image that a discriminator kept at the threshold promised for
the prompt's hardness band, or by one of a level that is not judged, whose own bound is at most as large. It goes past
the levels of a cascade that promise nothing, and is REJECTED where what its last level makes is not promised: nothing
is generated for it in vain. A plan's `quality_at_least` binds what discriminators keep of all other requests; what a
level makes that is not judged is their answer, with the bound of its own.
"""

from collections.abc import Sequence
from dataclasses import replace

from planner.catalog.entries import variant_of
from planner.catalog.guarantees import Guarantee, Promise
from planner.catalog.model import Catalog
from planner.catalog.option_limits import is_as_measured
from planner.serving.decisions import UNHONOURED, Rejection
from planner.serving.requests import ClassifiedValues, RequestValues
from planner.serving.routing.cascades import cascade_of, may_escalate
from schemas.messages import Cascade, Plan, PromisedQuality, Status

PARAM = "quality_at_least"


class Promises:
    """Looks up what a catalog promises. Knows no clock and no load; obeys any plan."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._guarantees = {(each.level, each.discriminator): each for each in catalog.guarantees}

    def judging(self, cascade: Cascade, plan: Plan, classified: ClassifiedValues) -> Cascade:
        """Return the cascade that a request's images are judged by: its threshold is raised to the promised one.

        It is 1, which keeps nothing, where none is promised. What replaces a draft of a request that states a quality
        is generated from noise, as the images were that the next level's own bound was measured on.
        """
        stated = classified.request.options.quality_at_least
        alpha = _alpha(plan, classified.request)
        if alpha is None:
            return cascade
        row = self._row(cascade.level, cascade.discriminator, classified.hardness, alpha)
        threshold = 1.0 if row is None else max(cascade.threshold, row.threshold)
        step = cascade.refine_from_step if stated is None else 0
        return replace(cascade, threshold=threshold, refine_from_step=step)

    def first(self, level: str, plan: Plan, classified: ClassifiedValues) -> str:
        """Return the first level of the way from `level` on of which an image may be kept."""
        cascade = self._cascade(level, plan, classified)
        while cascade is not None and cascade.threshold >= 1:
            level = cascade.next_level
            cascade = self._cascade(level, plan, classified)
        return level

    def hold(self, level: str, plan: Plan, classified: ClassifiedValues) -> bool:
        """Whether all images that a request may end with, placed on `level`, are promised as it states."""
        own, alpha = self._own(level, plan, classified), _alpha(plan, classified.request)
        return alpha is None or (own is not None and own[1].alpha <= alpha)

    def refusal(self, plan: Plan, classified: ClassifiedValues, levels: Sequence[str]) -> Rejection:
        """Return why none of these levels will do for a request, with the best that they promise."""
        stated = classified.request.options.quality_at_least
        owns = [own for level in levels if (own := self._own(level, plan, classified)) is not None]
        if owns:
            guarantee, row = min(owns, key=lambda own: own[1].alpha)
            rests = f"{guarantee.level}, by {row.n} images judged on {guarantee.date}"
            best = f"the best that can be promised for this prompt is {_down(1 - row.alpha)} ({rests})"
        else:
            best = f"catalog {self._catalog.name!r} promises nothing of it: measure it with `pochade profile`"
        return Rejection(Status.REJECTED, UNHONOURED, f"no level promises {PARAM} {stated:g}: {best}", param=PARAM)

    def stated(
        self, level: str, discriminator: str, threshold: float, classified: ClassifiedValues
    ) -> PromisedQuality | None:
        """Return what is promised of an image of `level` that was kept at this threshold; "" and 0: unjudged.

        None where nothing is, or the request's options make it another image than those that were measured.
        """
        guarantee = self._guarantees.get((variant_of(level), discriminator))
        if guarantee is None or not is_as_measured(classified.request.options):
            return None
        row = guarantee.best(guarantee.band(classified.hardness), threshold)
        if row is None:
            return None
        return PromisedQuality(
            wrong_at_most=row.alpha if discriminator else row.bound, confidence=1 - guarantee.delta, images=row.n,
            date=guarantee.date, standard=guarantee.standard,
        )  # fmt: skip

    def _cascade(self, level: str, plan: Plan, classified: ClassifiedValues) -> Cascade | None:
        cascade = cascade_of(plan, level) if may_escalate(classified.request, self._catalog) else None
        return None if cascade is None else self.judging(cascade, plan, classified)

    def _last(self, level: str, plan: Plan, classified: ClassifiedValues) -> str:
        while (cascade := self._cascade(level, plan, classified)) is not None:
            level = cascade.next_level
        return variant_of(level)

    def _own(self, level: str, plan: Plan, classified: ClassifiedValues) -> tuple[Guarantee, Promise] | None:
        """Return the own bound of the level that is not judged on the way from `level` on, in the prompt's band."""
        options = classified.request.options
        guarantee = self._guarantees.get((self._last(level, plan, classified), ""))
        is_measured = is_as_measured(options) and options.model in ("", *self._catalog.variants)
        row = guarantee.best(guarantee.band(classified.hardness)) if guarantee is not None and is_measured else None
        return None if guarantee is None or row is None else (guarantee, row)

    def _row(self, level: str, discriminator: str, hardness: float, alpha: float) -> Promise | None:
        guarantee = self._guarantees.get((variant_of(level), discriminator))
        return None if guarantee is None else guarantee.at_most(alpha, guarantee.band(hardness))


def _alpha(plan: Plan, request: RequestValues) -> float | None:
    """Return the share of wrong images that is allowed; None: any. A request's own wish counts before the plan's."""
    wanted = request.options.quality_at_least
    wanted = plan.quality_at_least or None if wanted is None else wanted
    return None if wanted is None else round(1 - wanted, 9)  # 1 - .9 is more than .1


def _down(share: float) -> str:
    return f"{int(share * 1000) / 1000:g}"
