"""The gallery of a run: one HTML file with every image in it, and beside each the reason why it is the one."""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from schemas.errors import PochadeError
from schemas.messages import Result, Stage, Status
from streams.operator.explain import steps_of, why
from streams.pages.templates import template
from streams.store.port import ImageStore

SHOWN_PX = 512  # larger images are shrunk: twenty of a large model's would make a file of 30 MB
PIXELATED_PX = 64  # up to here an image is enlarged with hard edges


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An image as the page holds it."""

    data_uri: str
    width: int  # px, of the original
    height: int
    is_tiny: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An image that was generated and not kept."""

    image: Shown
    level: str
    confidence: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One request on the gallery's page."""

    result: Result
    image: Shown | None
    drafts: tuple[Draft, ...]
    why: str
    judged: Stage | None = None  # the last stage that was scored: the kept image's, or the rejected draft's
    missing: str = ""  # why a completed image is not shown

    @property
    def group(self) -> str:
        """The group that the page filters by: kept, escalated or without an image."""
        if self.result.status is not Status.COMPLETED:
            return "unpainted"
        return "escalated" if self.result.escalated else "kept"


def card_of(result: Result, store: ImageStore) -> Card:
    """Return the card of one request; a missing image is reported on it, not hidden."""
    image, missing = None, ""
    if result.image_uri is not None:
        try:
            image = shown(store.get(result.image_uri))
        except (PochadeError, OSError) as error:
            missing = str(error)
    steps = steps_of(result)
    not_kept = steps[:-1] if result.status is Status.COMPLETED else steps
    drafts = tuple(draft for step in not_kept if (draft := _draft(step, store)))
    judged = next((step for step in reversed(steps) if step.confidence is not None), None)
    return Card(result=result, image=image, drafts=drafts, why=why(result), judged=judged, missing=missing)


def _draft(step: Stage, store: ImageStore) -> Draft | None:
    if step.image is None:
        return None
    try:
        image = shown(store.get(step.image.uri))
    except (PochadeError, OSError):  # only a draft: its score is shown in words
        return None
    return Draft(image=image, level=step.level, confidence=step.confidence)


def shown(data: bytes) -> Shown:
    """Return an image as an inline PNG of at most SHOWN_PX pixels. Raises OSError for bytes that are no image."""
    with Image.open(io.BytesIO(data)) as image:
        width, height = image.size
        if image.format != "PNG" or max(width, height) > SHOWN_PX:
            copy = image.convert("RGB")
            copy.thumbnail((SHOWN_PX, SHOWN_PX))
            out = io.BytesIO()
            copy.save(out, "PNG")
            data = out.getvalue()
    encoded = base64.b64encode(data).decode()
    is_tiny = max(width, height) <= PIXELATED_PX
    return Shown(data_uri=f"data:image/png;base64,{encoded}", width=width, height=height, is_tiny=is_tiny)


def render(report: Mapping[str, Any], results: Iterable[Result], store: ImageStore, order: Sequence[str] = ()) -> str:
    """The page, whole in itself; prompts and reasons are escaped. `order`: the catalog's levels, in its order."""
    cards = [card_of(result, store) for result in results]
    levels = _ordered(report["by_level"], order)
    return template("replay.reports", "gallery.html", {"duration": duration}).render(
        report=report, cards=cards, groups=_groups(cards), levels=levels, headline=headline(report)
    )


def _ordered(levels: Iterable[str], order: Sequence[str]) -> list[str]:
    """Return the levels in the catalog's order; those that it lacks come last, by name."""
    return sorted(levels, key=lambda level: (order.index(level) if level in order else len(order), level))


def _groups(cards: Sequence[Card]) -> list[tuple[str, str, int]]:
    named = {"kept": "Kept at once", "escalated": "Generated again", "unpainted": "Not generated"}
    counts = {group: sum(card.group == group for card in cards) for group in named}
    return [("all", "All", len(cards)), *((g, named[g], counts[g]) for g in named if counts[g])]


def headline(report: Mapping[str, Any]) -> str:
    """The run in one or two sentences."""
    completed, escalated = report["outcomes"].get(Status.COMPLETED, 0), report["escalated"]
    kept = completed - escalated
    text = f"{completed} of {report['accepted']} prompts became images: {kept} kept at once"
    text += f", {escalated} generated again on a better model." if escalated else "; none was generated again."
    return text


def duration(ms: float | None) -> str:
    """Format milliseconds for people."""
    if ms is None:
        return "-"
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
