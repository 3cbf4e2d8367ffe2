"""Every kind of fault by name, and the catalogue from which a run draws."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from replay.verify.chaos.faults import (
    broker,
    clocks,
    cluster,
    components,
    devices,
    disks,
    foreign,
    input,
    plans,
    processes,
    scaling,
    vectors,
    weights,
)
from replay.verify.chaos.schedule import Card
from replay.verify.chaos.world import Do

PURGE = "purge"  # it loses what it deletes, so that it comes only where it is asked for
KINDS: Mapping[str, Do] = {
    "kill": processes.kill,
    "restart": processes.restart,
    "freeze": processes.freeze,
    "last-worker": processes.last_worker,
    "join": processes.join,
    "second": processes.second,
    "broker": broker.kill,
    "broker-restart": broker.restart,
    "broker-freeze": broker.freeze,
    "exit": input.requested,
    "hang": input.requested,
    "device-killer": input.requested,
    **dict.fromkeys(devices.HOW, devices.break_device),
    "slow": input.requested,
    "repeat": input.repeat,
    "replay": input.replay,
    "cancel": input.cancel,
    "flap": plans.flap,
    "store": disks.store_away,
    "store-hangs": disks.store_stalls,
    "disk": disks.disk_full,
    "skew": clocks.skew,
    "all-roles-kill": processes.kill_all,
    "store-lies": disks.store_lies,
    "stranger": foreign.stranger,
    "foreign-record": foreign.record,
    "poison-repeat": input.poison_repeat,
    "overload": input.overload,
    PURGE: foreign.purge,
}
REUSE_KINDS: Mapping[str, Do] = {
    "vectors-kill": vectors.kill,
    "vectors-freeze": vectors.freeze,
    "vectors-empty": vectors.empty,
    "vectors-lie": vectors.lie,
    "indexer-kill": processes.kill,
    "indexer-freeze": processes.freeze,
}  # of a deployment that reuses images
COMPONENT_KINDS: Mapping[str, Do] = {
    "fetch-kill": components.fetch_kill,
    "load-kill": components.load_kill,
    "fuse-kill": components.fuse_kill,
    "volume-full": components.volume_full,
    "volume-altered": weights.volume_altered,
    "volume-cut": weights.volume_cut,
    "remote-altered": weights.remote_altered,
    "remote-cut": weights.remote_cut,
    "remote-swapped": weights.remote_swapped,
    "remote-drops": weights.remote_drops,
    "remote-away": weights.remote_away,
}  # of a deployment whose requests name components
SCALE_KINDS: Mapping[str, Do] = {
    "scale-up-kill": scaling.scale_up_kill,
    "scale-down-kill": scaling.scale_down_kill,
    "starting-kill": scaling.starting_kill,
    "draining-kill": scaling.draining_kill,
    "serving-kill": scaling.serving_kill,
}  # of a deployment whose workers come and go as the plan asks
INDEXER = "indexer"
MAX_AWAY = 0.15  # of a run, that a fault takes the vector store away
ROLES = ("classifier", "router", "discriminator", "ledger", "planner")  # one process each, beside the workers
TWINS = tuple(f"{role}-2" for role in ROLES)  # the second of each, where there are several brokers

BROKEN = (5000.0, 20_000.0)  # ms: a device of a worker, for its calls to fail and its process to come back
STARTED = (5000.0, 12_000.0)  # ms: long enough to join, and to have work in hand


def kinds(
    brokers: int, *, with_reuse: bool = False, with_components: bool = False, is_scaled: bool = False
) -> Mapping[str, Do]:
    """Return the kinds of faults for a run with this number of brokers.

    `with_reuse`: images begin from stored ones; `with_components`: requests name components; `is_scaled`: workers come
    and go.
    """
    more = dict(KINDS)
    for found, is_there in ((REUSE_KINDS, with_reuse), (COMPONENT_KINDS, with_components), (SCALE_KINDS, is_scaled)):
        more |= found if is_there else {}
    return more if brokers == 1 else {**more, **cluster.KINDS}


def scale_catalogue(session_ms: int) -> list[Card]:
    """Return the faults that may come repeatedly where workers come and go as the plan asks."""
    cards = [Card(kind=kind) for kind in SCALE_KINDS] * 2
    cards += [Card(kind=kind, target=scaling.SCALER) for kind in ("kill", "restart")]
    return [*cards, Card(kind="freeze", target=scaling.SCALER, lasts_ms=(1.2 * session_ms, 2.5 * session_ms))]


def component_catalogue(workers: Sequence[str], span_ms: float) -> list[Card]:
    """Return the faults that may come repeatedly where requests name components.

    The remote is away for shorter and for longer than a fetch tries (6 s). A file there is wrong for long enough for
    somebody to want it.
    """
    away, wrong = (2000.0, 12_000.0), (10_000.0, max(10_000.0, min(30_000.0, MAX_AWAY * span_ms)))
    cards = [Card(kind=kind) for kind in ("fetch-kill", "fetch-kill", "load-kill", "fuse-kill")]
    cards += [Card(kind="volume-full", target=name, lasts_ms=(20_000, 30_000)) for name in workers[:1]]
    cards += [Card(kind="volume-altered"), Card(kind="volume-cut")]
    cards += [Card(kind=kind, lasts_ms=wrong) for kind in ("remote-altered", "remote-cut", "remote-swapped")]
    return [*cards, *(Card(kind=kind, lasts_ms=away) for kind in ("remote-drops", "remote-away"))]


def reuse_catalogue(session_ms: int, span_ms: float) -> list[Card]:
    """Return the faults that may come repeatedly where images begin from stored ones; none may lose a request.

    The store is away for shorter and for longer than a breaker needs to open, and never for most of a run.
    """
    away, frozen = (500.0, min(15_000.0, MAX_AWAY * span_ms)), (1.2 * session_ms, 2.5 * session_ms)
    cards = [Card(kind=kind, lasts_ms=away) for kind in ("vectors-kill", "vectors-freeze")]
    cards += [Card(kind="vectors-empty"), Card(kind="vectors-lie"), Card(kind="vectors-lie")]
    cards += [Card(kind="indexer-kill", target=INDEXER), Card(kind="indexer-kill", target=INDEXER)]
    return [*cards, Card(kind="indexer-freeze", target=INDEXER, lasts_ms=frozen)]


def fault_catalogue(workers: Sequence[str], session_ms: int, *, can_exit: bool, brokers: int = 1) -> list[Card]:
    """Return the faults that may come repeatedly. `workers`: those that are there all the time;
    `session_ms`: silence until a member's partitions move on; `can_exit`: engine `chaos`.
    """
    cards = _single_broker_catalogue(workers, session_ms, can_exit=can_exit)
    if brokers == 1:
        return cards
    others = [card for card in cards if card.kind not in cluster.KINDS]
    return [*(_of_twin(card) if card.kind == "restart" else card for card in others), *cluster.cards()]


def _of_twin(card: Card) -> Card:
    """A role's second process in place of its first."""
    return replace(card, target=f"{card.target}-2") if card.target in ROLES else card


def _single_broker_catalogue(workers: Sequence[str], session_ms: int, *, can_exit: bool) -> list[Card]:
    session = float(session_ms)
    frozen = (1.2 * session, 2.5 * session)
    cards = [Card(kind=kind, target=name) for kind in ("kill", "restart") for name in (*ROLES, *workers)]
    cards += [Card(kind="freeze", target=name, lasts_ms=frozen) for name in (*ROLES, *workers)]
    cards += [Card(kind="second", target=role, lasts_ms=STARTED) for role in ("planner", "router", "ledger")]
    cards += [Card(kind="skew", target=name, lasts_ms=(3000, 8000)) for name in ("router", "ledger", *workers[:1])]
    cards += [Card(kind="disk", target=name, lasts_ms=(1000, 4000)) for name in workers[:1]]
    cards += [Card(kind="broker", lasts_ms=(0, 2000)), Card(kind="broker", lasts_ms=(0, 2000))]
    cards += [Card(kind="broker-restart", lasts_ms=(0, 2000)), Card(kind="broker-freeze", lasts_ms=frozen)]
    cards += [Card(kind="last-worker", lasts_ms=(session, 3 * session))] if workers else []
    cards += [Card(kind="flap", lasts_ms=(2000, 6000))]
    cards += [Card(kind="join", lasts_ms=STARTED), Card(kind="join", lasts_ms=(500, 2000))]
    cards += [Card(kind="store", lasts_ms=(1000, 4000)), Card(kind="store-hangs", lasts_ms=frozen)]
    cards += [Card(kind="slow"), Card(kind="repeat"), Card(kind="replay")]
    cards += [Card(kind="cancel") for _ in range(3)]
    cards += [Card(kind="all-roles-kill"), Card(kind="foreign-record"), Card(kind="foreign-record")]
    cards += [Card(kind="store-lies", lasts_ms=(500, 20_000)), Card(kind="stranger", lasts_ms=(5000, 15_000))]
    cards += [Card(kind="overload", lasts_ms=(2000, 5000))]
    if not can_exit:
        return cards
    cards += [Card(kind=kind, target=name, lasts_ms=BROKEN) for kind in devices.HOW for name in workers[:1]]
    return [*cards, Card(kind="exit"), Card(kind="hang"), Card(kind="device-killer"), Card(kind="poison-repeat")]
