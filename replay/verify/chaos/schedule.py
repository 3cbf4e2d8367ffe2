"""Which faults come when, as a function of the seed, and the numbered requests that they meet."""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass

from replay.load.driver import Due, schedule
from replay.load.prompts import builtin_prompts
from replay.traces import constant
from replay.traces.trace import Overrides, Row
from schemas.messages import GenerateOptions

FIRST, LAST = 0.04, 0.9  # share of the run within which faults begin
# a prompt that begins so ends the process of the engine `chaos`, or keeps it from ever coming back
EXIT, HANG, KILLS_DEVICE = "!exit", "!hang", "!device-dead"
TENANTS = ("ann", "bob", "eve")  # of a run whose images begin from stored ones; the store has latents of these alone
REPEATS = 24  # requests for each prompt of such a run, of all tenants together
CONSENTS = ("own",) * 8 + ("", "off")  # what its requests say of reuse, drawn evenly
# of a run whose workers come and go: 20 s of requests, and a pause in which they go, which takes 15 to 35 s
CYCLE_MS, BURST = 60_000.0, 3.0
SLOW = Overrides(options=GenerateOptions(model="heavy", steps=200, n=8))  # 6 s of one worker in the catalog `chaos`


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: its kind, when it begins, and how long it lasts."""

    number: int
    at_ms: float  # since the first request
    kind: str  # of `replay/verify/chaos/kinds.py`
    target: str  # a process, a role; "" where the kind needs none, or chooses when it comes
    lasts_ms: float
    dice: int  # seed of whatever else it draws

    def draw(self) -> random.Random:
        """Return random numbers of its own, the same at each call."""
        return random.Random(self.dice)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A fault that may come: what, to whom, how long at least and at most."""

    kind: str
    target: str = ""
    lasts_ms: tuple[float, float] = (0.0, 0.0)


def draw_faults(deck: Sequence[Card], count: int, span_ms: float, seed: int, last: float = LAST) -> list[Fault]:
    """`count` faults over a run of `span_ms`, until its share `last`: each card of the deck comes before any again."""
    assert deck, "no fault to choose from"
    dice = random.Random(f"faults/{seed}")
    cards: list[Card] = []
    while len(cards) < count:
        cards += dice.sample(list(deck), k=len(deck))
    times = sorted(dice.uniform(FIRST, last) * span_ms for _ in range(count))
    return [
        Fault(
            number=number,
            at_ms=round(at_ms),
            kind=card.kind,
            target=card.target,
            lasts_ms=round(dice.uniform(*card.lasts_ms)),
            dice=dice.getrandbits(32),
        )
        for number, (at_ms, card) in enumerate(zip(times, cards[:count], strict=True))
    ]


def with_last(faults: Sequence[Fault], kind: str, span_ms: float, share: float, seed: int) -> list[Fault]:
    """Return these faults and one of a kind that comes once, when `share` of the run is over."""
    dice = random.Random(f"{kind}/{seed}").getrandbits(32)
    once = Fault(number=len(faults), at_ms=round(share * span_ms), kind=kind, target="", lasts_ms=0, dice=dice)
    return [*faults, once]


def draw_requests(
    name: str, count: int, rate_rps: float, seed: int, faults: Sequence[Fault], *, repeat: bool = False
) -> list[Due]:
    """Numbered requests at a rate: most are plain, some have a deadline, several images or no hurry.

    `repeat`: few prompts, again and again, of several tenants, most of which let their images be reused.

    A fault whose kind is a request (`exit`, `hang`, `device-killer`, `slow`) is the first one at its time or later.
    """
    plain = schedule(name, builtin_prompts(count, seed), constant(rate_rps, count), seed)
    dice = random.Random(f"requests/{seed}")
    mixed = [dataclasses.replace(due, row=_mixed(due.row, dice)) for due in plain]
    if repeat:
        mixed = _repeating(mixed, random.Random(f"repeats/{seed}"))
    for fault in faults:
        if fault.kind in REQUESTED:
            number = next((n for n, due in enumerate(plain) if due.offset_ms >= fault.at_ms), count - 1)
            mixed[number] = dataclasses.replace(plain[number], row=_asked(fault, plain[number].row))
    return mixed


def in_bursts(requests: Sequence[Due]) -> list[Due]:
    """Return the requests at BURST times their rate at the beginning of each CYCLE_MS, and none in the rest of it."""
    late = 1 - 1 / BURST
    return [dataclasses.replace(due, offset_ms=due.offset_ms - late * (due.offset_ms % CYCLE_MS)) for due in requests]


def _repeating(requests: Sequence[Due], dice: random.Random) -> list[Due]:
    prompts = list(dict.fromkeys(due.row.prompt for due in requests))[: max(1, len(requests) // REPEATS)]
    return [dataclasses.replace(due, row=_of_tenant(due.row, dice.choice(prompts), dice)) for due in requests]


def _of_tenant(row: Row, prompt: str | None, dice: random.Random) -> Row:
    options = dataclasses.replace(row.wish.options, reuse=dice.choice(CONSENTS))
    return row._replace(prompt=prompt, wish=dataclasses.replace(row.wish, options=options, tenant=dice.choice(TENANTS)))


PROMPTED = {"exit": EXIT, "hang": HANG, "device-killer": KILLS_DEVICE}
REQUESTED = (*PROMPTED, "slow")


def _asked(fault: Fault, row: Row) -> Row:
    begins = PROMPTED.get(fault.kind)
    return row._replace(prompt=f"{begins} {row.prompt}") if begins else row._replace(wish=SLOW)


def _mixed(row: Row, dice: random.Random) -> Row:
    drawn, slack_ms = dice.random(), dice.uniform(3_000, 15_000)
    if drawn < 0.1:
        return row._replace(slack_ms=round(slack_ms))
    if drawn < 0.2:
        return row._replace(wish=Overrides(tier="batch"))
    if drawn < 0.25:
        return row._replace(wish=Overrides(options=GenerateOptions(n=2)))
    return row


def ordinary(requests: Sequence[Due]) -> set[str]:
    """Return the ids of requests that ask for nothing special: their latency shows how well the deployment does."""
    plain = {due.request_id for due in requests if _is_plain(due.row.wish) and due.row.slack_ms is None}
    return plain - killers(requests)


def _is_plain(wish: Overrides) -> bool:
    return dataclasses.replace(wish, tenant=Overrides().tenant, options=_without_reuse(wish)) == Overrides()


def _without_reuse(wish: Overrides) -> GenerateOptions:
    return dataclasses.replace(wish.options, reuse="")


def killers(requests: Sequence[Due]) -> set[str]:
    """Ids of the requests that end the process which generates them."""
    return {due.request_id for due in requests if (due.row.prompt or "").startswith(tuple(PROMPTED.values()))}
