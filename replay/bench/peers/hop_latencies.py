"""Where the time of one request alone goes in Pochade, by the broker's clock, which stamps each record as it comes."""

import itertools
import statistics
from collections.abc import Mapping, Sequence

from replay.bench.peers.load import Answered
from schemas.topics import CLASSIFIED, IMAGES, OUTCOMES, PROMPTS, RESULTS, jobs_topic
from streams.kafka.consumers import snapshot
from streams.settings import Settings

SENT, ANSWERED = "sent", "answered"
Moments = Mapping[str, Mapping[str, float]]  # request -> place on its way -> epoch ms


def hop_latencies_of(settings: Settings, variant: str, answers: Sequence[Answered], work_ms: float) -> dict[str, float]:
    """Return the mean ms between two places on a request's way, of requests that were sent one after the other.

    The worker's hop is without the work. A record's time is known in whole ms, and rounded down: half is added to it.
    """
    topics = {
        "prompts": PROMPTS, "classified": CLASSIFIED, "jobs": jobs_topic(variant, 1).name, "images": IMAGES,
        "outcomes": OUTCOMES, "results": RESULTS,
    }  # fmt: skip
    sent = {each.request_id: each for each in answers if each.has_image}
    since_ms = round(min((each.sent_ms for each in sent.values()), default=0)) - 1000
    moments: dict[str, dict[str, float]] = {request_id: {SENT: each.sent_ms} for request_id, each in sent.items()}
    names = {topic: place for place, topic in topics.items()}
    for record in snapshot.past(settings, list(names), since_ms=since_ms):
        found = moments.get((record.key or b"").decode(errors="replace"))
        if found is not None:
            found.setdefault(names[record.topic], record.timestamp_ms + 0.5)
    for request_id, each in sent.items():
        moments[request_id][ANSWERED] = each.sent_ms + each.took_ms
    return between(moments, (SENT, *topics, ANSWERED), {"images": work_ms})


def between(moments: Moments, places: Sequence[str], less_ms: Mapping[str, float]) -> dict[str, float]:
    """Return the mean ms from each place to the next, over requests that were seen at all. `less_ms`: to leave out."""
    whole = [found for found in moments.values() if all(place in found for place in places)]
    if not whole:
        return {}
    return {
        f"{before} to {place}": round(
            statistics.mean(found[place] - found[before] for found in whole) - less_ms.get(place, 0.0), 1
        )
        for before, place in itertools.pairwise(places)
    }
