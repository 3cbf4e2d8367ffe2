"""The stages of one request as bars on a time line, each with its reason and figures."""

from dataclasses import dataclass, replace
from typing import Final

from agents.console.view.requests import Place, TrackedRequest
from planner.serving.decisions import scores_in_words
from schemas.errors import InvalidRecord
from schemas.messages import EventKind, Stage
from schemas.topics import CLASSIFIED, IMAGES, OUTCOMES, PROMPTS, PROMPTS_BATCH, RESULTS
from streams.operator.explain import how_begun, steps_of, why

MIN_SHOWN_MS: Final = 1.0
MIN_WIDTH: Final = 0.4  # percent, so that short stages are visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One stage of a request."""

    name: str
    kind: str  # wait | work | judge | hop
    begin_ms: float  # since the request's first record
    length_ms: float
    reason: str
    is_open: bool = False  # it is not over
    left: float = 0.0  # percent of the whole
    width: float = 0.0


def bars_of(tracked: TrackedRequest, now_ms: int) -> list[Bar]:
    """Return the bars of a request in order of time.

    Hops are by the broker's clock, waits and work as workers measured them. The stages of an open request come from its
    events.
    """
    at = {topic: [place.at_ms for place in tracked.places if place.topic == topic] for topic in _TOPICS}
    begin_ms = min([tracked.first_ms, *at[PROMPTS], *at[PROMPTS_BATCH]])
    bars: list[Bar] = []
    routed_ms = float(begin_ms)
    if at[CLASSIFIED]:
        routed_ms = float(at[CLASSIFIED][0])
        bars.append(_bar("classify", "hop", begin_ms, begin_ms, routed_ms, _judgement(tracked)))
    steps = _steps(tracked)
    images = at[IMAGES]
    for number, step in enumerate(steps):
        began_ms = routed_ms + step.queue_ms
        done_ms = began_ms + step.generate_ms
        bars.append(_bar(f"wait for {step.level}", "wait", begin_ms, routed_ms, began_ms, _routing(step, number)))
        bars.append(_bar(f"generate on {step.level}", "work", begin_ms, began_ms, done_ms, _work(step)))
        stored_ms = float(images[number]) if number < len(images) else done_ms
        is_last = number == len(steps) - 1
        until_ms = _until(at, stored_ms, is_last=is_last)
        if step.threshold is not None or step.confidence is not None:
            bars.append(_bar(f"judge {step.level}'s image", "judge", begin_ms, done_ms, max(done_ms, until_ms),
                             _verdict(step, is_last=is_last)))  # fmt: skip
        routed_ms = max(done_ms, stored_ms)
    if not steps:
        bars += _running(tracked, begin_ms, routed_ms, now_ms)
    if tracked.result is not None and at[RESULTS]:
        from_ms = float(at[OUTCOMES][0]) if at[OUTCOMES] else routed_ms
        bars.append(
            _bar("end, once", "hop", begin_ms, min(from_ms, at[RESULTS][0]), at[RESULTS][0], why(tracked.result))
        )
    return _laid_out(bars)


_TOPICS: Final = (PROMPTS, PROMPTS_BATCH, CLASSIFIED, IMAGES, OUTCOMES, RESULTS)


def _bar(name: str, kind: str, zero_ms: float, begin_ms: float, end_ms: float, reason: str) -> Bar:
    length_ms = max(0.0, end_ms - begin_ms)
    return Bar(name=name, kind=kind, begin_ms=max(0.0, begin_ms - zero_ms), length_ms=length_ms, reason=reason)


def _until(at: dict[str, list[int]], stored_ms: float, *, is_last: bool) -> float:
    return float(at[OUTCOMES][0]) if is_last and at[OUTCOMES] else stored_ms


def _steps(tracked: TrackedRequest) -> tuple[Stage, ...]:
    if tracked.result is None:
        return ()
    try:
        return steps_of(tracked.result)
    except InvalidRecord:
        return ()


def _judgement(tracked: TrackedRequest) -> str:
    if tracked.judged is None:
        return "classified"
    classes = ", ".join(f"class {label} for {strategy}" for strategy, label in sorted(tracked.judged.classes.items()))
    return f"hardness {tracked.judged.hardness:.2f}; {classes or 'no class'}; by {tracked.judged.classifier}"


def _routing(step: Stage, number: int) -> str:
    drawn = f"drawn with probability {step.probability:.0%}" if step.probability else "not drawn"
    if number:
        drawn = f"escalated, to begin from step {step.refine_from_step}" if step.refine_from_step else "escalated"
    again = f"; attempt {step.attempt}" if step.attempt > 1 else ""
    return f"plan {step.plan_version}: {drawn}; {step.queue_ms} ms until {step.worker_id} began{again}"


def _work(step: Stage) -> str:
    parts = [f"{step.worker_id}", f"batch of {step.batch}" if step.batch > 1 else ""]
    if step.times is not None:
        named = (("load", step.times.load_ms), ("encode", step.times.encode_ms), ("denoise", step.times.denoise_ms),
                 ("decode", step.times.decode_ms))  # fmt: skip
        parts += [f"{name} {ms:.0f} ms" for name, ms in named if ms >= MIN_SHOWN_MS]
    parts.append(how_begun(step))
    parts += [f"with {component}" for component in step.components]
    parts += [f"overridden: {each}" for each in step.overridden]
    return "; ".join(part for part in parts if part)


def _verdict(step: Stage, *, is_last: bool) -> str:
    if step.confidence is None:
        return "not scored, though the threshold was {}".format(*scores_in_words(step.threshold or 0.0, digits=3))
    if step.threshold is None:
        (confidence,) = scores_in_words(step.confidence, digits=3)
        return f"confidence {confidence}; the plan judged no images of {step.level}"
    relation = "≥" if step.confidence >= step.threshold else "<"
    end = "kept" if is_last else "escalated"
    confidence, threshold = scores_in_words(step.confidence, step.threshold, digits=3)
    return f"confidence {confidence} {relation} threshold {threshold}: {end}; {step.discriminator}"


def _running(tracked: TrackedRequest, zero_ms: float, routed_ms: float, now_ms: int) -> list[Bar]:
    """Return the bars of a request without a path, from its events: it is open, or ended before any stage."""
    bars: list[Bar] = []
    end_ms = float(_ended_ms(tracked.places) or now_ms)
    is_open = tracked.result is None
    last_ms, doing, kind = routed_ms, "wait for a worker", "wait"
    reason = "no worker has begun with it"
    for note in tracked.notes:
        if note.kind == EventKind.PREVIEW:
            continue
        bars.append(_bar(doing, kind, zero_ms, last_ms, note.at_ms, reason))
        last_ms, reason = float(note.at_ms), note.words
        is_work = note.kind == EventKind.STARTED
        doing, kind = (f"generate on {note.level}", "work") if is_work else (f"{note.kind}, wait", "wait")
    last = _bar(doing, kind, zero_ms, last_ms, end_ms, reason)
    return [*bars, replace(last, is_open=is_open)]


def _ended_ms(places: tuple[Place, ...]) -> int | None:
    return next((place.at_ms for place in places if place.topic == RESULTS), None)


def _laid_out(bars: list[Bar]) -> list[Bar]:
    whole_ms = max((bar.begin_ms + bar.length_ms for bar in bars), default=0.0) or 1.0
    widths = [max(MIN_WIDTH, 100 * bar.length_ms / whole_ms) for bar in bars]
    return [
        replace(bar, left=min(100 - width, 100 * bar.begin_ms / whole_ms), width=width)
        for bar, width in zip(bars, widths, strict=True)
    ]
