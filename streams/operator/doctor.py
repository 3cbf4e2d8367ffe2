"""Gathers the facts for `doctor` step by step; a step that raises becomes a failed check, and the next step runs."""

import contextlib
import math
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from planner.catalog.engines import ENGINES, JUDGES, clip_of_floor
from planner.catalog.judges import PROFILE
from planner.observation.workers import FORGET_MS, ReceivedHeartbeat
from schemas.errors import InvalidRecord, PochadeError
from schemas.messages import Heartbeat, ImageGenerated, Plan, ReusePlan
from schemas.record import Incoming
from schemas.topics import DAY_MS, DLQ, FLEET, HOUR_MS, IMAGES, PLAN, READERS, RESULTS, TABLE, full_name, reader
from streams.broker import probe
from streams.catalogs import load, missing_models
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.codec.headers import ERROR, UNREAD
from streams.control import deletions
from streams.control.heartbeats import newest_beats
from streams.control.reuse import is_asked_for
from streams.control.tail import ControlLog, foreign, newest
from streams.kafka.clients import ANSWER_LIMIT_S, CLIENT_ID, client_config
from streams.kafka.consumers import snapshot
from streams.kafka.consumers.offsets import unread
from streams.kafka.consumers.snapshot import oldest_ms
from streams.kafka.groups import groups
from streams.kafka.groups.description import Member
from streams.kafka.groups.members import members
from streams.kafka.transactions.lease import KafkaLease
from streams.operator import checks, cluster, reuse_checks, reuse_index
from streams.operator.checks import READS, Attendance
from streams.operator.cluster import Found, differences, expected, variants_of
from streams.operator.dead_letters import dead_letter_of
from streams.operator.verdicts import Check, Verdict, fail, ok, unmade, warn
from streams.processes.announced import readiness
from streams.security.access_check import is_loopback
from streams.security.properties import check_properties
from streams.security.security import PLAINTEXT
from streams.settings import Settings
from streams.store.open import open_store
from streams.vectors.open import open_vectors
from streams.visible import counted

INDEXER = "indexer"  # its group is checked where a plan asks for reuse
READ_S = 15.0
VECTORS_S = 5.0
NEWEST_MS = 300_000  # max age of a worker's newest image for the check of safety
CONNECT = "pochade up, or check kafka.bootstrap_servers and, for TLS or a password, kafka.properties"
DESCRIBE = "allow DESCRIBE on the topics and groups PREFIX.*"
DENIED = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}


def examine(settings: Settings, *, loads_models: bool = False) -> Iterator[Check]:
    """Yield all checks, in the order in which they depend on each other; one that raises has failed.

    `loads_models`: also loads each level's model, and each discriminator's, on this machine.
    """
    yield _checked(
        "settings", lambda: _settings(settings), "correct it; `pochade config show` shows where it comes from"
    )
    yield from _all_checked("disk", lambda: _disks(settings), "correct home and store.folder")
    yield _checked("store", lambda: _store(settings), "correct store.*, or the rights of who runs this")
    if settings.receipts.certificate:
        yield _checked("receipts", lambda: _receipts(settings), "correct receipts.certificate and receipts.key")
    if settings.vectors.url:
        yield _checked("vectors", lambda: _vectors(settings), "correct vectors.*, or `pochade up` for lite")
    yield _checked("models", lambda: _models(settings), "correct the catalog")
    if loads_models:
        yield from _all_checked("models load", lambda: _loaded(settings), "correct the catalog")
        yield from _all_checked("models load", lambda: _judged(settings), "correct the catalog")
    yield _checked("quality", lambda: _quality(settings), "correct the catalog")
    reached = _checked("broker", lambda: _broker(settings), CONNECT)
    yield reached
    if reached.verdict is Verdict.FAIL:
        return  # every further check asks the broker
    try:
        found = cluster.topics(settings)
    except Exception as error:
        yield unmade("topics", error, "allow DESCRIBE on the topics PREFIX.*")
        return
    yield from _features(settings, found)
    yield from _topics(settings, found)
    yield from _traffic(settings, found)


def serving(settings: Settings) -> list[Check]:
    """Make the checks of what a request waits for: broker, topics, plan, workers, and a member of each role."""
    made = [_checked("broker", lambda: _broker(settings), CONNECT)]
    if made[0].verdict is Verdict.FAIL:
        return made
    found = cluster.topics(settings)
    if missing := sorted({PLAN, FLEET, *READERS} - found.keys()):
        return [*made, fail("topics", f"missing: {', '.join(missing)}", "pochade topics create (or `pochade up`)")]
    fleet = _fleet(settings, found, now_ms(), made)
    for topic, reads in READERS.items():
        made.append(_checked(reads.group, partial(_there, settings, topic, reads.group, fleet), DESCRIBE, "roles"))
    return [*made, *checks.check_gateway(fleet.readiness)]


def _there(settings: Settings, topic: str, group: str, fleet: "Fleet") -> Check:
    return checks.check_role(group, topic, attendance(settings, group, topic), fleet.readiness)


def _checked(name: str, look: Callable[[], Check], do: str, row: str = "") -> Check:
    try:
        return look()
    except Exception as error:  # whatever lies on a topic: the other checks are made all the same
        return unmade(name, error, do, row)


def _all_checked(name: str, look: Callable[[], Iterable[Check]], do: str) -> Iterator[Check]:
    try:
        yield from look()
    except Exception as error:
        yield unmade(name, error, do)


def _settings(settings: Settings) -> Check:
    check_properties(settings)
    return ok("settings", "valid, librdkafka's properties too")


def _models(settings: Settings) -> Check:
    catalog = load(settings.catalog)
    named = {name: each.loading.device for name, each in catalog.served.items()}
    on_one = [name for name, device in named.items() if ":" in device and not settings.worker.device]
    return checks.check_models(missing_models(catalog, settings.worker.engine), settings.catalog, on_one)


def _loaded(settings: Settings) -> Iterator[Check]:
    """Load each model as a worker does, which tries what the catalog says of it; one after the other."""
    for name, variant in load(settings.catalog).served.items():
        engine = settings.worker.engine or variant.engine
        try:
            ENGINES.load(engine)(variant, settings.worker.threads, None).close()
        except Exception as error:  # whatever an engine and its libraries raise
            yield fail(f"model of {name}", str(error), "correct the catalog, or the model", row="models load")
        else:
            yield ok(f"model of {name}", f"{engine} loads it, and it does what the catalog says", row="models load")


def _judged(settings: Settings) -> Iterator[Check]:
    """Open each discriminator as its role does, and judge an image of noise; one after the other."""
    import numpy as np

    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    named = load(settings.catalog).discriminators.values()
    judges = [each for judge in named for each in (judge, clip_of_floor(judge)) if each is not None]
    for judge in judges:
        name = judge.name
        if judge.engine == PROFILE:
            continue
        try:
            score = JUDGES.load(judge.engine)(judge).score([noise], ["a red heart"])[0]
        except Exception as error:  # whatever a judge and its libraries raise
            yield fail(f"judge {name}", str(error), "correct the catalog, or the model", row="models load")
            continue
        if math.isnan(judge.confidence(score)):
            why = f"its score {score:.3g} is no confidence in [0, 1]"
            yield fail(f"judge {name}", why, "give it a calibration = {scale = ..., shift = ...}", row="models load")
        else:
            yield ok(f"judge {name}", f"{judge.engine} opens it, and it judges an image", row="models load")


def _quality(settings: Settings) -> Check:
    catalog = load(settings.catalog)
    unknown = [name for name, variant in catalog.variants.items() if variant.quality is None and not catalog.curves]
    return checks.check_quality(list(catalog.variants), unknown, settings.catalog)


def _store(settings: Settings) -> Check:
    open_store(settings)
    return ok("store", settings.store.url or f"the folder {settings.store.folder or settings.home / 'images'}")


def _receipts(settings: Settings) -> Check:
    from streams.security.receipts import KeyFiles  # the extra `receipts`

    return checks.check_certificate(KeyFiles(settings.receipts).signer().expires, datetime.now(UTC))


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
    rights = "the ledger needs transactions: allow WRITE on the transactional ids PREFIX.*"
    yield _checked("transactions", lambda: _transactions(settings, rights), rights)


def _transactions(settings: Settings, rights: str) -> Check:
    why = cluster.has_transactions(settings)
    return ok("transactions", "can be begun") if not why else fail("transactions", why, rights)


def _groups(settings: Settings) -> Check:
    """Check consumer groups by joining the group PREFIX.doctor with the timeouts that roles would have."""
    group, wanted_ms = f"{settings.kafka.prefix}.doctor", settings.kafka.session_timeout_ms
    with groups.unwarned():  # the check reports what the log would warn of
        protocol = groups.protocol(settings)
        timeouts = groups.timeouts(settings, group, protocol)
        return checks.check_groups(protocol, wanted_ms, timeouts, groups.why_not_joined(settings, group, RESULTS))


def _topics(settings: Settings, found: Mapping[str, Found]) -> Iterator[Check]:
    wanted = expected(variants_of(found), settings.kafka.jobs_partitions, settings.kafka.flow_partitions)
    look = "pochade topics diff"
    yield _checked("topics", lambda: checks.check_topics(differences(wanted, found, settings.kafka.prefix)), look)
    yield _checked("equal partitions", lambda: checks.check_joined(found), look)
    hidden = checks.check_visibility(found)
    if hidden is None:
        yield _checked("retention", lambda: checks.check_retention(found), look)
        yield _checked("record sizes", lambda: checks.check_sizes(found), look)
    else:
        yield hidden
    yield _checked(
        "copies", lambda: checks.check_copies(found, len(_brokers(settings))), "allow DESCRIBE on the cluster"
    )
    names = {*found, *(topic.name for topic in TABLE)}
    yield _checked("rights", lambda: checks.check_denied(cluster.denied(settings, sorted(names))), DESCRIBE)
    if RESULTS in found:
        yield from _all_checked("rights in force", lambda: _rights(settings), "allow DESCRIBE on the cluster")


def _rights(settings: Settings) -> Iterator[Check]:
    beyond = sorted(host for host in _brokers(settings) if not is_loopback(host))
    in_force = cluster.are_rights_in_force(settings, full_name(settings.kafka.prefix, RESULTS))
    yield checks.check_rights_in_force(is_in_force=in_force, beyond=beyond)
    yield checks.check_encryption(settings.kafka.properties.get("security.protocol", PLAINTEXT).upper(), beyond)


def _brokers(settings: Settings) -> list[str]:
    """Return the hosts of the brokers, as these name themselves."""
    return [each.host for each in probe.probe(client_config(settings), ANSWER_LIMIT_S).brokers.values()]


class Fleet(NamedTuple):
    """The facts that several checks need; where one could not be read, its own check has failed."""

    beats: Mapping[str, ReceivedHeartbeat]  # of each worker the newest
    live: list[Heartbeat]
    plan: Plan | None
    readiness: dict[str, str]  # role -> why a process of it on this machine is not ready; "": it is

    def serving(self, variant: str) -> int:
        """Return the number of live workers of a variant."""
        return sum(beat.variant == variant for beat in self.live)

    def is_scaled_to_zero(self, variant: str = "") -> bool:
        """Whether the plan wants no worker of a variant; "": of none."""
        if self.plan is None or self.plan.scale is None:
            return False
        targets = self.plan.scale.targets
        return targets.get(variant) == 0 if variant else bool(targets) and not any(targets.values())


def _traffic(settings: Settings, found: Mapping[str, Found]) -> Iterator[Check]:
    now, made = now_ms(), list[Check]()
    fleet = _fleet(settings, found, now, made)
    yield from made
    yield from _roles(settings, found, fleet)
    yield from checks.check_gateway(fleet.readiness)
    yield from checks.check_jobs(found, fleet.live, settings.kafka.prefix)
    if PLAN in found:
        yield _checked("planner", lambda: _leader(settings, fleet.readiness), "allow READ on the group PREFIX.planner")
    if IMAGES in found:
        yield _checked("safety", lambda: _safety(settings, fleet.live), f"allow READ on PREFIX.{IMAGES}")
    yield _checked("clocks", lambda: _clocks(settings, fleet), "compare the clocks of all machines yourself")
    if fleet.plan is not None and fleet.plan.reuse is not None:
        yield from _reuse(settings, fleet.plan.reuse, is_asked=is_asked_for(fleet.plan))
    yield _checked("deleted unread", lambda: _deletions(settings, found), DESCRIBE)
    yield _checked("dead letters", lambda: _dead_letters(settings, found, now), f"allow READ on PREFIX.{DLQ}")


def _fleet(settings: Settings, found: Mapping[str, Found], now: int, made: list[Check]) -> Fleet:
    """Read the plan and the heartbeats; the checks of both are added to `made`."""
    plan, here = None, readiness(settings.home, settings.kafka.prefix)
    try:
        plan, strangers = _plan(settings) if PLAN in found else (None, [])
        made.append(checks.check_plan(plan, strangers, now, here))
    except Exception as error:
        made.append(unmade("plan", error, f"allow READ on PREFIX.{PLAN}; upgrade this release if a newer one serves"))
    fleet = Fleet({}, [], plan, here)
    try:
        beats = newest_beats(_read(settings, FLEET, now - FORGET_MS)) if FLEET in found else {}
        to_zero, silent_ms = fleet.is_scaled_to_zero(), settings.planner.worker_timeout_ms
        workers, live = checks.check_workers(
            beats, silent_ms, now, is_scaled_to_zero=to_zero, plan=plan, readiness=here
        )
        made.append(workers)
        return fleet._replace(beats=beats, live=live)
    except Exception as error:
        made.append(unmade("workers", error, f"allow READ on PREFIX.{FLEET}"))
        return fleet


def _roles(settings: Settings, found: Mapping[str, Found], fleet: Fleet) -> Iterator[Check]:
    """Check each topic that a role serves: its group's members, and the age of what they have not read."""
    seen: dict[str, Attendance] = {}
    for topic in found:
        reads = reader(topic)
        if reads is not None:
            row = "roles" if topic in READERS else "queues"
            name = reads.group if topic in READERS else f"queue {topic.rpartition('.')[0]}"
            look = partial(_attended, settings, topic, fleet, seen)
            yield _checked(name, look, DESCRIBE, row)
    if seen:
        yield _checked("strangers", lambda: checks.check_strangers(seen), DESCRIBE)


def _attended(settings: Settings, topic: str, fleet: Fleet, seen: dict[str, Attendance]) -> Check:
    reads = reader(topic)
    assert reads is not None, "only topics with a reader are asked about"
    here = attendance(settings, reads.group, topic, with_age=True)
    seen[reads.group] = here
    if topic in READERS:
        return checks.check_role(reads.group, topic, here, fleet.readiness)
    (variant,) = variants_of([topic])
    limit_s = 2 * settings.admission.max_backlog_s + settings.worker.job_timeout_s
    to_zero = fleet.is_scaled_to_zero(variant)
    return checks.check_queue(topic, here, fleet.serving(variant), limit_s, is_scaled_to_zero=to_zero)


def _leader(settings: Settings, here: Mapping[str, str]) -> Check:
    with contextlib.closing(KafkaLease(settings)) as lease:
        return checks.check_leader(lease.last_beat(), settings.planner.leader_timeout_ms, now_ms(), here)


def _deletions(settings: Settings, found: Mapping[str, Found]) -> Check:
    def is_one(letter: Incoming) -> bool:
        return deletions.read_deletion(letter) is not None

    since_ms = now_ms() - DAY_MS
    letters = snapshot.past(settings, [DLQ], since_ms=since_ms, keep=is_one) if DLQ in found else []
    before = [each for each in map(deletions.read_deletion, letters) if each is not None]
    return checks.check_deletions([str(each) for each in deletions.merged([*deletions.find(settings), *before])])


def _dead_letters(settings: Settings, found: Mapping[str, Found], now: int) -> Check:
    letters = [dead_letter_of(record) for record in _read(settings, DLQ, now - HOUR_MS)] if DLQ in found else []
    clients = sum(letter.is_clients for letter in letters)
    unread = sum(letter.record.headers.get(f"{ERROR}code") == UNREAD.encode() for letter in letters)
    return checks.check_dead_letters(len(letters) - clients, clients, unread)


def _reuse(settings: Settings, plan: ReusePlan, *, is_asked: bool) -> Iterator[Check]:
    """Check the index that a plan with reuse needs. `is_asked`: a route of it begins images from stored latents."""
    unnamed = reuse_checks.check_store_named(settings.vectors.url, is_asked=is_asked)
    if unnamed is not None:
        yield unnamed
        return

    @cache
    def latents() -> reuse_index.StoredLatents:
        variants = load(settings.catalog).variants.keys()
        return reuse_index.stored_latents(settings, variants, plan.storage.ttl_s, READ_S)

    def missing() -> Check:
        return reuse_checks.check_missing_rows(
            reuse_index.missing_rows(settings, open_store(settings), latents().named)
        )

    rights = "allow DESCRIBE on the groups PREFIX.*"
    yield _checked("indexer", lambda: reuse_checks.check_indexer(attendance(settings, INDEXER, RESULTS)), rights)
    index = "correct vectors.*, or `pochade up` for lite"
    yield _checked("index", lambda: reuse_checks.check_collection(reuse_index.collection(settings, plan.key)), index)
    results = f"allow READ on PREFIX.{RESULTS}, and correct the catalog"
    yield _checked("stale rows", lambda: reuse_checks.check_stale_rows(latents().stale()), results)
    yield _checked("missing rows", missing, f"{results}, vectors.* and store.*")


def _safety(settings: Settings, live: list[Heartbeat]) -> Check:
    """Check by their newest images that all live workers check images for safety; heartbeats do not say it."""
    alive, newest_of = {beat.worker_id for beat in live}, dict[str, tuple[int, bool]]()

    def see(record: Incoming) -> bool:
        try:
            made = decode(record.value, ImageGenerated)
        except InvalidRecord:
            return False  # the discriminator reports it
        if made.worker_id in alive:
            seen = (made.stored_ms, made.image.unsafe is not None)
            newest_of[made.worker_id] = max(seen, newest_of.get(made.worker_id, seen))
        return False  # nothing more is kept of it

    snapshot.past(settings, [IMAGES], since_ms=now_ms() - NEWEST_MS, keep=see, timeout_s=READ_S)
    checked = {worker: is_checked for worker, (_, is_checked) in newest_of.items()}
    return checks.check_safety(checked, (settings.safety.checker or settings.safety.engine))


def _clocks(settings: Settings, fleet: Fleet) -> Check:
    beats = [(each.seen_ms, each.heartbeat) for each in fleet.beats.values()]
    try:
        skew_ms = cluster.clock_skew_ms(settings)
    except PochadeError as error:
        do = "allow CREATE, WRITE and DELETE on PREFIX.doctor-*, or compare clocks yourself"
        return checks.check_worker_clocks(beats, now_ms()) or warn("clocks", str(error), do)
    return checks.check_clocks(skew_ms, beats, now_ms())


def _read(settings: Settings, topic: str, since_ms: int) -> list[Incoming]:
    return snapshot.past(settings, [topic], since_ms=since_ms, timeout_s=READ_S)


def _plan(settings: Settings) -> tuple[Plan | None, list[int]]:
    """Return the newest plan, and the offsets of plans that no planner has written."""
    with ControlLog(settings, READ_S) as log:
        return newest(log), foreign(log)


def attendance(settings: Settings, role: str, reads: str = "", *, with_age: bool = False) -> Attendance:
    """Return the members of the group PREFIX.ROLE and what it has not committed, without joining it.

    `reads`: the topic that it reads; "": as every deployment's roles do. `with_age`: the oldest of it is read, too.

    Raises PochadeError: the cluster does not answer, or this user may not read the group's offsets.
    """
    prefix, name = settings.kafka.prefix, reads or READS[role]
    group, topic = f"{prefix}.{role}", full_name(prefix, name)
    try:
        spans = unread(settings, topic, group)
    except KafkaException as failure:
        raise PochadeError(
            f"cannot see how far {group} has come on {topic}: {failure.args[0].str()}; grant DESCRIBE on both"
        ) from None
    oldest_s: float | None = None
    if with_age:
        moment_ms = oldest_ms(settings, {(name, p): span.start for p, span in spans.items()}, READ_S)
        oldest_s = None if moment_ms is None else max(0, now_ms() - moment_ms) / 1000
    there = _members(settings, group)
    behind = sum(span.end - span.start for span in spans.values())
    if there is None:
        return Attendance(None, behind, oldest_s)
    ours = {CLIENT_ID, settings.kafka.properties.get("client.id", CLIENT_ID)}
    strangers = tuple(f"{each.client_id} on {each.host}" for each in there if each.client_id not in ours)
    return Attendance(len(there), behind, oldest_s, strangers)


def _members(settings: Settings, group: str) -> list[Member] | None:
    try:
        return list(members(settings, group).values())
    except KafkaException as failure:
        error = failure.args[0]
        if error.code() in DENIED:
            return None
        if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
            return []
        raise PochadeError(f"cannot see the members of {group}: {error.str()}") from None
