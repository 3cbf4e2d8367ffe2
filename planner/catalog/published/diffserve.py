"""DiffServe's published profiles. Scores are P(fake) there and confidences, 1 - P(fake), here (facts/peers.md 2.4)."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from planner.catalog.discriminator import Curve, DeferralPoint
from planner.catalog.published.lines import InvalidPublished, grouped, lines, number

IMAGES: Final = 4  # a prompt
NEVER_MS: Final = 100_000.0  # stands for a batch that does not fit
STEP: Final = 0.005  # between the thresholds of the published table
ACCELERATOR: Final = "ampere"  # the rows of the A100; those of the others are copies of them


def runtimes(text: str, file: str, accelerator: str = ACCELERATOR) -> dict[str, dict[int, float]]:
    """`Model, Accel, batchsize, avg_runtime` -> model -> batch size -> ms a call, of one accelerator.

    "sdturbo" stands for a cascade's light model and "sdv15" for its heavy one, whatever they are. Raises
    InvalidPublished.
    """
    found: dict[str, dict[int, float]] = {}
    for line in lines(text, file, ("Model", "Accel", "batchsize", "avg_runtime")):
        batch, ms = line.whole("batchsize", low=1), line.number("avg_runtime", low=0)
        if line.cells["Accel"].endswith(accelerator) and ms < NEVER_MS:
            found.setdefault(line.cells["Model"], {})[batch] = ms
    if not found:
        raise InvalidPublished(f"{file}: no run time of an accelerator that ends with {accelerator!r}")
    return found


def deferral(text: str, file: str) -> Curve:
    """`t, f_t` -> f(t), thresholds rising. Raises InvalidPublished, also where f falls."""
    points: list[DeferralPoint] = []
    for line in lines(text, file, ("t", "f_t")):
        point = DeferralPoint(line.number("t", 0, 1), line.number("f_t", 0, 1))
        if points and (point.threshold <= points[-1].threshold or point.deferred < points[-1].deferred):
            raise InvalidPublished(f"{line.where}: t must rise and f_t not fall: got {point} after {points[-1]}")
        points.append(point)
    return tuple(points)


def confidences(text: str, file: str) -> dict[str, tuple[float, ...]]:
    """`content_id, MODEL...` -> model -> confidence of each prompt, its images' mean, in the file's order.

    Raises InvalidPublished, also for content ids that do not count up.
    """
    found: dict[str, list[float]] = {}
    before: int | None = None
    for line in lines(text, file, ("content_id",)):
        content = line.whole("content_id")
        if before is not None and content != before + 1:
            raise InvalidPublished(f"{line.where}: content_id must count up: got {content} after {before}")
        before = content
        for model in line.cells:
            if model not in ("content_id", ""):
                found.setdefault(model, []).append(1 - line.number(model, 0, 1))
    return {model: tuple(values) for model, values in found.items()}


def discriminator(text: str, file: str, images: int = IMAGES) -> tuple[tuple[float, ...], ...]:
    """One P(fake) a line, without a header -> prompt -> image -> confidence. Raises InvalidPublished."""
    rows = text.removeprefix("\ufeff").splitlines()
    scores = [1 - number(row.strip(), f"{file}:{at}", 0, 1) for at, row in enumerate(rows, 1) if row.strip()]
    return grouped(scores, images, file)


def curve_of(scores: Sequence[float], step: float = STEP) -> Curve:
    """f(t) of confidences on a grid of thresholds, up to where nothing is kept. `scores` must not be empty."""
    assert scores, "a curve of no confidences"
    rising = sorted(scores)
    thresholds = [round(at * step, 12) for at in range(round(1 / step) + 1)]
    points = [DeferralPoint(t, bisect_left(rising, t) / len(rising)) for t in thresholds]
    kept = sum(point.deferred < 1 for point in points)
    return tuple(points[: kept + 1])
