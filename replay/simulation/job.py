"""A request on its way through the simulation."""

from typing import Protocol

from planner.catalog.entries import Variant
from planner.catalog.options import AS_IT_IS, Settled
from planner.control.shedding import ORDINARY
from planner.serving.placement import Placement


class Draws(Protocol):
    """What chance decides for a stretch of requests, one entry a request; made on first use."""

    hardness: list[float]
    classes: list[dict[str, str]]

    def confidence(self, level: str, discriminator: str) -> list[float]:
        """In the picture that a level paints for each request."""
        ...

    def quality(self, level: str, step: int) -> list[float] | None:
        """Of the picture that a level paints, from a draft at `step`, or 0: on a blank. None: nobody measured it."""
        ...


class Job:
    """What is known of an open request; changed in place from stage to stage, dropped when it ends.

    The logic of the roles reads it as a `planner.serving.requests.ClassifiedValues`.
    """

    __slots__ = (
        "arrived_ms", "attempt", "deadline_ms", "draft", "draws", "how", "level", "number", "order", "partition",
        "request_id", "row", "step", "variant",
    )  # fmt: skip

    # Of a request that asks for nothing but a picture, as most do; `wishes.WishJob` has its own.
    tier, tenant, quality, options = ORDINARY, "", "auto", AS_IT_IS
    pictures = 1
    judged = 1  # of them, where a cascade holds for its level
    limit_ms: float | None = None  # from its arrival, within which it is answered in time; None: the SLO

    def __init__(
        self, number: int, request_id: str, arrived_ms: float, deadline_ms: float | None, draws: Draws, row: int
    ) -> None:
        self.number, self.request_id = number, request_id
        self.arrived_ms, self.deadline_ms = arrived_ms, deadline_ms
        self.draws, self.row = draws, row
        self.level = self.variant = ""  # decided by the router
        self.step = 0  # of the variant's, where it begins with a draft or a past picture
        self.how: Settled | None = None  # apart from how many; None: as its variant does, from `step` on
        self.attempt = 1
        self.partition = -1
        self.order = 0  # among all jobs sent
        self.draft: tuple[str, int] | None = None  # level and step of the picture that was rejected

    @property
    def request(self) -> "Job":
        """What the client asked for."""
        return self

    @property
    def hardness(self) -> float:
        """Of the prompt, [0, 1]."""
        return self.draws.hardness[self.row]

    @property
    def classes(self) -> dict[str, str]:
        """Strategy -> the level believed optimal for the prompt."""
        return self.draws.classes[self.row]

    def placed(self, placement: Placement, step: int) -> None:
        """Go to the level of a placement, whose variant begins at `step` of its own."""
        self.level, self.variant, self.step = placement.level, placement.variant, step

    def on(self, variant: Variant, step: int) -> tuple[Settled | None, int]:
        """`how` and `step` on a variant that begins at this step of its own, over the job's picture if it has one."""
        del variant
        return None, step

    def on_blank(self, variant: Variant) -> None:
        """This variant paints it without its draft."""
        self.how, self.step = self.on(variant, 0)
