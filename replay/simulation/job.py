"""A request on its way through the simulation."""

from collections.abc import Sequence
from typing import Protocol

from planner.catalog.entries import Variant, reuse_step, variant_of
from planner.catalog.options import AS_IT_IS, ResolvedOptions
from planner.control.shedding import ORDINARY
from planner.reuse.steps import Decision
from planner.serving.decisions import draft_counts
from planner.serving.routing.placement import Placement

REUSE_MARK = "~k"  # of a reuse level's name: "heavy~k4" skips up to 4 steps


class Draws(Protocol):
    """The random draws for a stretch of requests, one entry per request; computed on first use."""

    hardness: list[float]
    classes: list[dict[str, str]]

    def confidence(self, level: str, discriminator: str) -> list[float]:
        """Return the confidences in the images that a level generates for each request."""

    def quality(self, level: str, step: int) -> list[float] | None:
        """Return the quality of a level's image, refined from `step` on (0: from noise); None if not measured."""


class Job:
    """The state of an open request; changed in place from stage to stage, dropped when it ends.

    The logic of the roles reads it as a `planner.serving.requests.ClassifiedValues`.
    """

    __slots__ = (
        "arrived_ms", "attempt", "change", "deadline_ms", "deaths", "draft", "draws", "expected_ms", "how",
        "is_rejected", "is_under_way", "level", "number", "order", "partition", "request_id", "reuse", "routed_ms",
        "row", "share", "step", "variant",
    )  # fmt: skip

    # Of a request that asks for nothing but an image, as most do; `wishes.WishJob` has its own.
    tier, tenant, quality, options = ORDINARY, "", "auto", AS_IT_IS
    prompt, seed = "", None  # traces of simulations carry neither
    images = 1
    judged = 1  # of them, where a cascade holds for its level
    limit_ms: float | None = None  # from its arrival, within which it is answered in time; None: the SLO

    def __init__(
        self, number: int, request_id: str, arrived_ms: float, deadline_ms: float | None, draws: Draws, row: int
    ) -> None:
        self.number, self.request_id = number, request_id
        self.arrived_ms, self.deadline_ms = arrived_ms, deadline_ms
        self.draws, self.row = draws, row
        self.level = self.variant = ""  # decided by the router
        self.step = 0  # of the variant's, where it begins with a draft or a stored latent
        self.share = 0.0  # of its steps, that its level lets a stored latent save; 0: none
        self.expected_ms: float | None = None  # mean run time until it was looked up; None: it needs no lookup
        self.reuse: Decision | None = None  # of its lookup; None: its plan asked for no reuse
        self.change: float | None = None  # of its quality, by the stored latent it begins from; None: not measured
        self.is_under_way = False  # it arrived while the fleet changed its strategy
        self.how: ResolvedOptions | None = None  # apart from how many; None: as its variant does, from `step` on
        self.routed_ms = arrived_ms  # when it was sent to its level
        self.attempt = 1  # as its record says
        self.deaths: int | None = None  # owners that died while they had the record; None if none did
        self.partition = -1
        self.order = 0  # among all jobs sent
        self.is_rejected = False  # its image is kept though it is not good enough
        self.draft: tuple[str, int] | None = None  # level and step of the image that was rejected

    @property
    def job_id(self) -> str:
        """Its id, as a window's reasons name it."""
        return self.request_id

    @property
    def classified(self) -> "Job":
        """The classified request, as the roles' logic reads it."""
        return self

    @property
    def request(self) -> "Job":
        """The client's request, as the roles' logic reads it."""
        return self

    @property
    def received_ms(self) -> float:
        """Time of its record on `prompts`."""
        return self.arrived_ms

    @property
    def hardness(self) -> float:
        """Hardness of the prompt, [0, 1]."""
        return self.draws.hardness[self.row]

    @property
    def classes(self) -> dict[str, str]:
        """Strategy -> the level believed optimal for the prompt."""
        return self.draws.classes[self.row]

    def placed(self, placement: Placement, share: float, now_ms: float) -> None:
        """Go to the level of a placement, which lets a stored latent save this share of the steps."""
        self.level, self.variant, self.step, self.share = placement.level, placement.variant, 0, share
        self.routed_ms = now_ms
        self.expected_ms = placement.run_ms if share else None

    def begin_at(self, step: int, own_step: int) -> None:
        """Begin at this step of the job's own steps, which is `own_step` of its variant's, after a lookup."""
        del step
        self.step, self.expected_ms = own_step, None

    def escalate(self, level: str, variant: str, now_ms: float) -> None:
        """Go on to the next level with the image as a draft, which is nearer than any stored latent."""
        self.draft = self.generated
        self.level, self.variant, self.share, self.expected_ms = level, variant, 0.0, None
        self.routed_ms = now_ms

    @property
    def generated(self) -> tuple[str, int]:
        """Level and step of its image: of one begun from a stored latent the level of its own K, of a miss in full."""
        if not self.share:
            return self.level, self.step
        return (f"{self.variant}{REUSE_MARK}{self.step}" if self.step else self.variant), 0

    def quality_of(self, level: str, step: int) -> float | None:
        """Return the quality of its image of a level, refined from a draft at `step`; None if not measured.

        An image begun from a stored latent has its variant's quality from noise plus the measured change by reuse;
        where no change was measured, that of its level.
        """
        is_changed = self.change is not None and reuse_step(level) > 0
        drawn = self.draws.quality(variant_of(level) if is_changed else level, step)
        if drawn is None:
            return None
        return drawn[self.row] + (self.change or 0.0 if is_changed else 0.0)

    def on(self, variant: Variant, step: int) -> tuple[ResolvedOptions | None, int]:
        """`how` and `step` on a variant that begins at this step of its own, over the job's image if it has one."""
        del variant
        return None, step

    def sizes(self, variant: Variant) -> Sequence[tuple[int, int]]:
        """Width and height of each of its images, generated by this variant."""
        return ((variant.width, variant.height),)

    def as_resolved(self, variant: Variant, how: ResolvedOptions, step: int) -> tuple[ResolvedOptions | None, int]:
        """`how` and `step` on a variant that resolved its options so; `step` counts the variant's own steps."""
        del variant
        return None, step if how.refine_from_step else 0

    @property
    def owners(self) -> int:
        """Number of workers that had its record, with the next one."""
        return (self.deaths or 0) + 1

    @property
    def has_draft(self) -> bool:
        """Whether an image of its request was made that is its answer if this one cannot come."""
        return self.draft is not None and draft_counts(self.options)

    @property
    def refines(self) -> bool:
        """Whether it begins with that draft."""
        return self.step > 0 and self.draft is not None

    @property
    def attempts(self) -> int:
        """Number of the attempt that its next owner makes."""
        return max(self.attempt, self.deaths + 1) if self.deaths else self.attempt

    def become_new_record(self, attempt: int) -> None:
        """Become a new record, with which no owner has died."""
        self.attempt, self.deaths = attempt, None

    def on_blank(self, variant: Variant) -> None:
        """Let this variant generate the job from noise, without its draft."""
        self.how, self.step = self.on(variant, 0)
