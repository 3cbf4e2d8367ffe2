"""The gallery of a run: one HTML file with every image and the reason of its level."""

import base64
import difflib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from planner.reuse.explain import meaning
from planner.reuse.neighbour import Miss
from replay.reports.reuse import reuse_of
from replay.reports.reuse_sources import ReuseSource
from schemas.errors import PochadeError
from schemas.messages import Result, Stage, Status
from streams.operator.explain import steps_of, why
from streams.pages.templates import template
from streams.store.input_images import open_stored
from streams.store.port import ImageStore

SHOWN_PX = 512  # larger images are shrunk: twenty of a large model's would make a file of 30 MB
NO_SOURCES: Final[Mapping[str, ReuseSource]] = {}
MAX_MARKED = 0.4  # share of a prompt's words that may be marked as new
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


class Word(NamedTuple):
    """A word of a prompt, and whether the prompt it is compared with lacks it at that place."""

    text: str
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The start of an image, under a plan that lets images begin from earlier ones."""

    step: int  # of `steps`: skipped; 0: from noise
    steps: int
    similarity: float | None = None
    is_planned: bool = False  # it began from noise as its level says: nothing was to be looked up
    why_not: str = ""  # it began from noise
    source: ReuseSource | None = None  # None: not known
    source_image: Shown | None = None
    words: tuple[Word, ...] = ()  # of its prompt, compared with its source's; (): equal, or the source is not known

    @property
    def is_repeat(self) -> bool:
        """Whether both prompts are the same, word for word."""
        return self.source is not None and not self.words

    @property
    def is_edit(self) -> bool:
        """Whether few of its words are not in its source's prompt, so that marking them helps."""
        return 0 < sum(word.is_new for word in self.words) <= MAX_MARKED * len(self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One request on the gallery's page."""

    result: Result
    image: Shown | None
    drafts: tuple[Draft, ...]
    why: str
    judged: Stage | None = None  # the last stage that was scored: the kept image's, or the rejected draft's
    missing: str = ""  # why a completed image is not shown
    begun: Begun | None = None  # None: its plan asked for no reuse, or the run could reuse nothing

    @property
    def group(self) -> str:
        """The group that the page filters by: how it was begun where images are reused, else whether it was kept."""
        if self.result.status is not Status.COMPLETED:
            return "unpainted"
        if self.begun is not None:
            return "reused" if self.begun.step else "planned" if self.begun.is_planned else "missed"
        return "escalated" if self.result.escalated else "kept"


def card_of(result: Result, store: ImageStore, source: ReuseSource | None = None, *, shows_reuse: bool = True) -> Card:
    """Return the card of one request; a missing image is reported on it, not hidden.

    `shows_reuse`: whether the run could reuse images; plans ask for lookups also where there is no vector store.
    """
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
    begun = _begun(result, source, store) if shows_reuse else None
    return Card(result=result, image=image, drafts=drafts, why=why(result), judged=judged, missing=missing, begun=begun)


def _begun(result: Result, source: ReuseSource | None, store: ImageStore) -> Begun | None:
    reuse = reuse_of(result)
    if reuse is None:
        return None
    if not reuse.step:
        is_planned = reuse.miss == Miss.ROUTE
        return Begun(step=0, steps=reuse.steps, is_planned=is_planned, why_not=meaning(reuse.miss or "unknown"))
    return Begun(
        step=reuse.step,
        steps=reuse.steps,
        similarity=reuse.similarity,
        source=source,
        source_image=_shown_or_none(source.image_uri, store) if source else None,
        words=words_against(result.prompt, source.prompt) if source and source.prompt != result.prompt else (),
    )


def words_against(prompt: str, other: str) -> tuple[Word, ...]:
    """Return the words of a prompt, marked where the other prompt has others."""
    mine, theirs = prompt.split(), other.split()
    matcher = difflib.SequenceMatcher(None, theirs, mine, autojunk=False)
    spans = [(kind != "equal", start, end) for kind, _, _, start, end in matcher.get_opcodes()]
    return tuple(Word(word, is_new) for is_new, start, end in spans for word in mine[start:end])


def _draft(step: Stage, store: ImageStore) -> Draft | None:
    if step.image is None:
        return None
    image = _shown_or_none(step.image.uri, store)
    return None if image is None else Draft(image=image, level=step.level, confidence=step.confidence)


def _shown_or_none(uri: str, store: ImageStore) -> Shown | None:
    """Return an image that stands beside another one; None where it cannot be shown, as words say the rest."""
    try:
        return shown(store.get(uri))
    except (PochadeError, OSError):
        return None


def shown(data: bytes) -> Shown:
    """Return an image as an inline PNG of at most SHOWN_PX pixels. Raises OSError for bytes that are no image."""
    with open_stored(data) as image:
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


def render(
    report: Mapping[str, Any],
    results: Iterable[Result],
    store: ImageStore,
    order: Sequence[str] = (),
    sources: Mapping[str, ReuseSource] = NO_SOURCES,
) -> str:
    """The page, whole in itself; prompts and reasons are escaped.

    `order`: the catalog's levels, in its order; `sources`: request_id -> the image that it began from, where known.
    """
    shows_reuse = bool(report.get("reuse"))
    cards = [card_of(each, store, sources.get(each.request_id), shows_reuse=shows_reuse) for each in results]
    levels = _ordered(report["by_level"], order)
    return template("replay.reports", "gallery.html", {"duration": duration}).render(
        report=report, cards=cards, groups=_groups(cards), levels=levels, headline=headline(report),
        course=_timeline(report, cards), shown_ids={card.result.request_id for card in cards},
    )  # fmt: skip


SPAN_NAMES: Final = {"reuse": "strategy: reuse", "models": "strategy: models", "frozen": "store frozen"}


def _timeline(report: Mapping[str, Any], cards: Sequence[Card]) -> dict[str, Any] | None:
    """Return the timeline of a run, in per cent of its width; None for a run that could reuse nothing."""
    spans = report.get("spans")
    if not spans:
        return None
    whole_s = max(span["to_s"] for span in spans) or 1.0
    began_ms = report["began_ms"]

    def left(at_s: float) -> float:
        return 100 * min(max(at_s, 0.0), whole_s) / whole_s

    found = report["reuse"] or {"misses": {}}
    return {
        "misses": [(meaning(why), count) for why, count in found["misses"].items() if why != Miss.ROUTE],
        "spans": [
            {
                "what": span["what"],
                "name": SPAN_NAMES.get(span["what"], span["what"]),
                "left": left(span["from_s"]),
                "width": left(span["to_s"]) - left(span["from_s"]),
            }
            for span in spans
        ],
        "ticks": [
            {
                "group": card.group,
                "request_id": card.result.request_id,
                "prompt": card.result.prompt,
                "left": left((card.result.ended_ms - began_ms) / 1000),
            }
            for card in cards
        ],
    }


def _ordered(levels: Iterable[str], order: Sequence[str]) -> list[str]:
    """Return the levels in the catalog's order; those that it lacks come last, by name."""
    return sorted(levels, key=lambda level: (order.index(level) if level in order else len(order), level))


def _groups(cards: Sequence[Card]) -> list[tuple[str, str, int]]:
    named = {
        "reused": "Begun from an earlier image",
        "missed": "No earlier image used",
        "planned": "Begun from noise as planned",
        "kept": "Kept at once",
        "escalated": "Generated again",
        "unpainted": "Not generated",
    }
    counts = {group: sum(card.group == group for card in cards) for group in named}
    return [("all", "All", len(cards)), *((g, named[g], counts[g]) for g in named if counts[g])]


def headline(report: Mapping[str, Any]) -> str:
    """The run in one or two sentences."""
    if found := report.get("reuse"):
        return _headline_of_reuse(report, found)
    completed, escalated = report["outcomes"].get(Status.COMPLETED, 0), report["escalated"]
    kept = completed - escalated
    text = f"{completed} of {report['accepted']} prompts became images: {kept} kept at once"
    text += f", {escalated} generated again on a better model." if escalated else "; none was generated again."
    return text


def _headline_of_reuse(report: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    completed, saved = report["outcomes"].get(Status.COMPLETED, 0), 100 * found["saved_share"]
    text = f"{completed} of {report['accepted']} prompts became images: {found['hits']} began from an earlier one"
    return f"{text}, which saved {saved:.0f} in 100 steps of all." if found["hits"] else f"{text}."


def duration(ms: float | None) -> str:
    """Format milliseconds for people."""
    if ms is None:
        return "-"
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"
