"""Gathers the facts for `doctor` step by step; a step that raises becomes a failed check, and the next step runs."""

import contextlib
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import KafkaError, KafkaException

from schemas.errors import PochadeError
from schemas.messages import Heartbeat, ImageGenerated, Plan, ReusePlan
from schemas.record import Incoming
from schemas.topics import DLQ, FLEET, IMAGES, PLAN, RESULTS, TABLE, full_name, waiting_group, waiting_topic
from streams.broker import probe
from streams.catalogs import load, missing_models
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.control.reuse import is_asked_for
from streams.control.tail import ControlLog, foreign, newest
from streams.kafka.clients import ANSWER_LIMIT_S, client_config
from streams.kafka.consumers import snapshot
from streams.kafka.consumers.offsets import unread
from streams.kafka.groups import groups
from streams.kafka.groups.members import members_of
from streams.kafka.transactions.lease import KafkaLease
from streams.operator import checks, cluster, reuse_checks, reuse_index
from streams.operator.checks import READS, Attendance, Check, fail, ok, warn
from streams.operator.cluster import Found, differences, expected, variants_of
from streams.operator.dead_letters import dead_letter_of
from streams.security.properties import check_properties
from streams.settings import Settings
from streams.store.open import open_store
from streams.vectors.open import open_vectors
from streams.visible import counted

INDEXER = "indexer"  # its group is checked where a plan asks for reuse
READ_S = 15.0
VECTORS_S = 5.0
HOUR_MS = 3_600_000
NEWEST_MS = 300_000  # age up to which a worker's newest image tells whether it checks
CONNECT = "pochade up, or check kafka.bootstrap_servers and, for TLS or a password, kafka.properties"
DENIED = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


def examine(settings: Settings) -> Iterator[Check]:
    """Yield all checks, in the order in which they depend on each other."""
    yield _checked(
        "settings", lambda: _settings(settings), "correct it; `pochade config show` shows where it comes from"
    )
    yield from _disks(settings)
    yield _checked("store", lambda: _store(settings), "correct store.*, or the rights of who runs this")
    if settings.vectors.url:
        yield _checked("vectors", lambda: _vectors(settings), "correct vectors.*, or `pochade up` for lite")
    yield _checked("models", lambda: _models(settings), "correct the catalog")
    reached = _checked("broker", lambda: _broker(settings), CONNECT)
    yield reached
    if reached.verdict is checks.Verdict.FAIL:
        return  # every further check asks the broker
    try:
        found = cluster.topics(settings)
    except PochadeError as error:
        yield fail("topics", str(error), "allow DESCRIBE on the topics PREFIX.*")
        return
    yield from _features(settings, found)
    yield from _topics(settings, found)
    yield from _traffic(settings, found)


def _checked(name: str, look: Callable[[], Check], do: str) -> Check:
    try:
        return look()
    except PochadeError as error:
        return fail(name, str(error), do)


def _settings(settings: Settings) -> Check:
    check_properties(settings)
    return ok("settings", "valid, librdkafka's properties too")


def _models(settings: Settings) -> Check:
    missing = missing_models(load(settings.catalog, settings.published), settings.worker.engine)
    return checks.check_models(missing, settings.catalog)


def _store(settings: Settings) -> Check:
    open_store(settings)
    return ok("store", settings.store.url or f"the folder {settings.store.folder or settings.home / 'images'}")


def _vectors(settings: Settings) -> Check:
    store = open_vectors(settings, "doctor")
    assert store is not None, "it is checked where the settings name one"
    with contextlib.closing(store):
        store.probe(VECTORS_S)
    return ok("vectors", f"{settings.vectors.url} answers")


def _disks(settings: Settings) -> Iterator[Check]:
    home = settings.home.expanduser().resolve()
    yield _disk("disk of home", home)
    folder = pathlib.Path(settings.store.folder or home / "images").expanduser().resolve()
    if not settings.store.url and not folder.is_relative_to(home):
        yield _disk("disk of the store", folder)


def _disk(name: str, folder: pathlib.Path) -> Check:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return checks.check_disk(name, str(folder), shutil.disk_usage(there).free)


def _broker(settings: Settings) -> Check:
    config = client_config(settings)
    metadata = probe.probe(config, ANSWER_LIMIT_S)
    return ok("broker", f"{config['bootstrap.servers']} answers: {counted(len(metadata.brokers), 'broker')}")


def _features(settings: Settings, found: Mapping[str, Found]) -> Iterator[Check]:
    if RESULTS not in found:
        return  # without the topic `results` there is nothing to join or write to
    yield _checked("consumer groups", lambda: _groups(settings), "allow READ on the groups PREFIX.*")
    why = cluster.has_transactions(settings)
    rights = "the ledger needs transactions: allow WRITE on the transactional ids PREFIX.*"
    yield ok("transactions", "can be begun") if not why else fail("transactions", why, rights)


def _groups(settings: Settings) -> Check:
    """Check consumer groups by joining the group PREFIX.doctor with the timeouts that roles would have."""
    group, wanted_ms = f"{settings.kafka.prefix}.doctor", settings.kafka.session_timeout_ms
    with groups.unwarned():  # the check reports what the log would warn of
        protocol = groups.protocol(settings)
        timeouts = groups.timeouts(settings, group, protocol)
        return checks.check_groups(protocol, wanted_ms, timeouts, groups.why_not_joined(settings, group, RESULTS))


def _topics(settings: Settings, found: Mapping[str, Found]) -> Iterator[Check]:
    wanted = expected(variants_of(found), settings.kafka.jobs_partitions, settings.kafka.flow_partitions)
    yield checks.check_topics(differences(wanted, found, settings.kafka.prefix))
    yield checks.check_joined(found)
    hidden = checks.check_visibility(found)
    if hidden is None:
        yield checks.check_retention(found)
        yield checks.check_sizes(found)
    else:
        yield hidden
    yield _checked("copies", lambda: checks.check_copies(found, _brokers(settings)), "allow DESCRIBE on the cluster")
    names = {*found, *(topic.name for topic in TABLE)}
    yield checks.check_denied(cluster.denied(settings, sorted(names)))


def _brokers(settings: Settings) -> int:
    return len(probe.probe(client_config(settings), ANSWER_LIMIT_S).brokers)


def _roles(settings: Settings, found: Mapping[str, Found]) -> Iterator[Check]:
    for role, topic in READS.items():
        if topic in found:
            do = "allow DESCRIBE on the groups PREFIX.*"
            yield _checked(role, lambda: checks.check_role(role, attendance(settings, role)), do)  # noqa: B023  called at once
    topics = {variant: waiting_topic(variant).name for variant in variants_of(found)}
    waiting = {variant: topic for variant, topic in topics.items() if topic in found}
    yield _checked("waiting", lambda: _waiting(settings, waiting), "allow DESCRIBE on the groups PREFIX.*")
    if PLAN in found:
        yield _checked("planner", lambda: _leader(settings), "allow READ on the group PREFIX.planner")


def _waiting(settings: Settings, topics: Mapping[str, str]) -> Check:
    """Check the queues of jobs that wait for idle workers; what has gone since the oldest of a queue counts with it."""
    prefix = settings.kafka.prefix
    group, behind = waiting_group(prefix), dict[str, int]()
    for variant, topic in topics.items():
        try:
            spans = unread(settings, full_name(prefix, topic), group)
        except KafkaException as failure:
            raise PochadeError(f"cannot see how far {group} has come on {topic}: {failure.args[0].str()}") from None
        behind[variant] = sum(span.end - span.start for span in spans.values())
    return checks.check_waiting(behind, _members(settings, group))


def _leader(settings: Settings) -> Check:
    with contextlib.closing(KafkaLease(settings)) as lease:
        return checks.check_leader(lease.last_beat(), settings.planner.leader_timeout_ms, now_ms())


def _traffic(settings: Settings, found: Mapping[str, Found]) -> Iterator[Check]:
    yield from _roles(settings, found)
    now = now_ms()
    beats = _beats(_read(settings, FLEET, now - HOUR_MS)) if FLEET in found else []
    workers, live = checks.check_workers(beats, settings.planner.worker_timeout_ms, now)
    yield workers
    yield from checks.check_jobs(found, live, settings.kafka.prefix)
    if IMAGES in found:
        yield _checked("safety", lambda: _safety(settings, live), f"allow READ on PREFIX.{IMAGES}")
    yield _clocks(settings, beats)
    plan, strangers = _plan(settings) if PLAN in found else (None, [])
    yield checks.check_plan(plan, strangers, now)
    if plan is not None and plan.reuse is not None:
        yield from _reuse(settings, plan.reuse, is_asked=is_asked_for(plan))
    letters = [dead_letter_of(record) for record in _read(settings, DLQ, now - HOUR_MS)] if DLQ in found else []
    clients = sum(letter.is_clients for letter in letters)
    yield checks.check_dead_letters(len(letters) - clients, clients)


def _reuse(settings: Settings, plan: ReusePlan, *, is_asked: bool) -> Iterator[Check]:
    """Check the index that a plan with reuse needs. `is_asked`: a route of it begins images from stored latents."""
    unnamed = reuse_checks.check_store_named(settings.vectors.url, is_asked=is_asked)
    if unnamed is not None:
        yield unnamed
        return

    def stale() -> Check:
        variants = load(settings.catalog, settings.published).variants.keys()
        latents = reuse_index.stale_latents(settings, variants, plan.storage.ttl_s, READ_S)
        return reuse_checks.check_stale_rows(latents)

    rights = "allow DESCRIBE on the groups PREFIX.*"
    yield _checked("indexer", lambda: reuse_checks.check_indexer(attendance(settings, INDEXER, RESULTS)), rights)
    index = "correct vectors.*, or `pochade up` for lite"
    yield _checked("index", lambda: reuse_checks.check_collection(reuse_index.collection(settings, plan.key)), index)
    yield _checked("stale rows", stale, f"allow READ on PREFIX.{RESULTS}, and correct the catalog")


def _safety(settings: Settings, live: list[Heartbeat]) -> Check:
    """Check by their newest images that all live workers check what they store; no heartbeat tells it."""
    alive, newest_of = {beat.worker_id for beat in live}, dict[str, tuple[int, bool]]()

    def see(record: Incoming) -> bool:
        made = decode(record.value, ImageGenerated)
        if made.worker_id in alive:
            seen = (made.stored_ms, made.image.unsafe is not None)
            newest_of[made.worker_id] = max(seen, newest_of.get(made.worker_id, seen))
        return False  # nothing more is kept of it

    snapshot.past(settings, [IMAGES], since_ms=now_ms() - NEWEST_MS, keep=see, timeout_s=READ_S)
    checked = {worker: is_checked for worker, (_, is_checked) in newest_of.items()}
    return checks.check_safety(checked, settings.safety.checker)


def _clocks(settings: Settings, beats: list[tuple[int, Heartbeat]]) -> Check:
    try:
        skew_ms = cluster.clock_skew_ms(settings)
    except PochadeError as error:
        do = "allow CREATE, WRITE and DELETE on PREFIX.doctor-*, or compare clocks yourself"
        return checks.check_worker_clocks(beats, now_ms()) or warn("clocks", str(error), do)
    return checks.check_clocks(skew_ms, beats, now_ms())


def _read(settings: Settings, topic: str, since_ms: int) -> list[Incoming]:
    return snapshot.past(settings, [topic], since_ms=since_ms, timeout_s=READ_S)


def _beats(records: list[Incoming]) -> list[tuple[int, Heartbeat]]:
    newest = {record.key: record for record in records if record.value}
    return [(record.timestamp_ms, decode(record.value, Heartbeat)) for record in newest.values()]


def _plan(settings: Settings) -> tuple[Plan | None, list[int]]:
    """Return the newest plan, and the offsets of plans that no planner has written."""
    with ControlLog(settings, READ_S) as log:
        return newest(log), foreign(log)


def attendance(settings: Settings, role: str, reads: str = "") -> Attendance:
    """Return the number of members of the group PREFIX.ROLE, and of its uncommitted records, without joining it.

    `reads`: the topic that it reads; "": as every deployment's roles do.

    Raises:
        PochadeError: the cluster does not answer, or this user may not read the group's offsets.
    """
    prefix = settings.kafka.prefix
    group, topic = f"{prefix}.{role}", full_name(prefix, reads or READS[role])
    try:
        spans = unread(settings, topic, group)
    except KafkaException as failure:
        raise PochadeError(
            f"cannot see how far {group} has come on {topic}: {failure.args[0].str()}; grant DESCRIBE on both"
        ) from None
    return Attendance(_members(settings, group), sum(span.end - span.start for span in spans.values()))


def _members(settings: Settings, group: str) -> int | None:
    try:
        return len(members_of(settings, group))
    except KafkaException as failure:
        error = failure.args[0]
        if error.code() in DENIED:
            return None
        if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return 0
        raise PochadeError(f"cannot see the members of {group}: {error.str()}") from None
