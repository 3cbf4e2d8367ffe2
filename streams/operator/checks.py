"""The verdicts of `doctor`: each check takes facts and returns ok, warn or fail, and what to do about it."""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from planner.observation.state import Deployment, overdue, troubles
from planner.observation.workers import OUT, ReceivedHeartbeat, is_alive
from planner.serving.routing.unserved import waiting_in_words
from schemas.messages import Heartbeat, Plan
from schemas.topics import (
    CLASSIFIED,
    DAY_MS,
    ENDED,
    IMAGES,
    OUTCOMES,
    PROMPTS,
    PROMPTS_BATCH,
    RESULTS,
    SEGMENT_MS,
    SKEW_MS,
    TABLE,
    WINDOW_MS,
    full_name,
    jobs_topic,
)
from streams.kafka.groups.group_terms import Protocol, Timeouts, describe
from streams.operator.cluster import CLEANUP, OF_VARIANT, Difference, Found
from streams.operator.verdicts import Check, fail, ok, starting, warn
from streams.processes.announced import GATEWAY, NO_ANSWER
from streams.visible import counted

SKEW_WARN_MS = 1000
EXPIRY_DAYS = 30  # before which a certificate's end is no warning
DISK_WARN_BYTES = 2**30
JOINED = (CLASSIFIED, OUTCOMES, RESULTS)
UPSTREAM = (PROMPTS, PROMPTS_BATCH, CLASSIFIED, IMAGES, OUTCOMES)
BEGINNING = {"starting", "loading"}  # states before a worker's first job
DIFF = "pochade topics diff"
READS = {"classifier": PROMPTS, "router": CLASSIFIED, "discriminator": IMAGES, "ledger": OUTCOMES}
OLD_S, STUCK_S = 10.0, 60.0  # of a role's oldest unread record; a restart, or a change of members, takes less
BEHIND = 1000  # records; roles commit every half second, so a busy role always has some uncommitted records
SEVERAL = 3  # brokers; from this number on, one broker may be lost without losing records
NATURAL = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Attendance:
    """The members of the consumer group that serves a topic, and how far the group is behind."""

    members: int | None  # None: this user may not see them
    behind: int  # offsets that the group has not committed
    oldest_s: float | None = None  # age of the oldest record of these; None: there is none, or it was not asked for
    strangers: tuple[str, ...] = ()  # members that are no clients of ours


def check_topics(differing: Sequence[Difference]) -> Check:
    """Check that the topics of the table exist, and lose no record that is read; other differences warn."""
    if not differing:
        return ok("topics", "all are there, as the table says")
    missing = [each.topic for each in differing if each.found == "missing"]
    if missing:
        return fail("topics", f"missing: {', '.join(missing)}", "pochade topics create (or `pochade up`)")
    if cleaned := [f"{each.topic} has {each.found}" for each in differing if each.what == CLEANUP]:
        return fail("topics", f"cleanup.policy removes other records than roles expect: {', '.join(cleaned)}", DIFF)
    counts = Counter(each.what for each in differing)
    named = ", ".join(f"{what} of {counted(count, 'topic')}" for what, count in counts.items())
    return warn("topics", f"not as the table says: {named}", DIFF)


def check_joined(found: Mapping[str, Found]) -> Check:
    """Check that the topics that the ledger joins by partition have equal numbers of partitions.

    `outcomes` may have more: the ledger moves what lies there to the partition that knows what has ended.
    """
    counts = {name: found[name].partitions for name in (*JOINED, ENDED) if name in found}
    shown = ", ".join(f"{name} {count}" for name, count in counts.items()) or "none exist"
    equal = {count for name, count in counts.items() if name != OUTCOMES}
    if not found.keys() >= set(JOINED) or len(equal) != 1 or counts[OUTCOMES] < min(equal):
        do = "begin with another kafka.prefix, whose topics are made alike: the ledger joins them by partition"
        return fail("equal partitions", shown, do)
    return ok("equal partitions", shown)


def check_retention(found: Mapping[str, Found]) -> Check:
    """Check that results are kept for longer than records of the topics before them, deletion by segments included.

    The ledger does not serve a record that is older than the results it remembers: the request might end twice. Such a
    request is lost.
    """
    if RESULTS not in found:
        return fail("retention", "results does not exist", "pochade topics create")
    kept_ms = max(found[name].retention_ms for name in (RESULTS, ENDED) if name in found)
    served_ms = min(kept_ms, WINDOW_MS) - SKEW_MS  # the age of what a ledger takes in
    upstream = [name for name in found if name in UPSTREAM or OF_VARIANT.fullmatch(name)]
    if short := [name for name in upstream if found[name].retention_ms > served_ms]:
        do = "raise retention.ms of results and ended, or lower theirs"
        shown = f"{', '.join(short)} keep records for longer than the ledger remembers, {served_ms / DAY_MS:.1f} days"
        return fail("retention", f"{shown}: older ones are not served", do)
    late = [name for name in upstream if found[name].retention_ms + found[name].segment_ms > served_ms]
    if late:
        do = f"pochade topics diff; set their segment.ms to {SEGMENT_MS}"
        shown = f"segments of {', '.join(late)} may hold records longer than their retention"
        return warn("retention", f"{shown}, and than the ledger remembers: it passes them over", do)
    return ok("retention", "what has ended is remembered for longer than any record before it lives")


def check_jobs(found: Mapping[str, Found], workers: Sequence[Heartbeat], prefix: str) -> list[Check]:
    """Check that each variant's job topic has a partition for each of its workers."""
    serving: dict[str, int] = {}
    for beat in workers:
        if beat.variant:
            serving[beat.variant] = serving.get(beat.variant, 0) + 1
    checks = []
    for variant, count in sorted(serving.items()):
        topic = found.get(jobs_topic(variant, 1).name)
        partitions = topic.partitions if topic else 0
        shown = f"{counted(partitions, 'partition')} for {counted(count, 'worker')}"
        if partitions < count:
            name = full_name(prefix, jobs_topic(variant, 1).name)
            do = f"some workers are idle: kafka-topics.sh --alter --topic {name} --partitions {count} (roles may run)"
            checks.append(fail(f"jobs.{variant}", shown, do, "jobs"))
        else:
            checks.append(ok(f"jobs.{variant}", shown, "jobs"))
    return checks


def check_denied(missing: Mapping[str, Sequence[str]]) -> Check:
    """Check that this user may read and write every topic."""
    if not missing:
        return ok("rights", "every topic may be read and written by this user")
    named = "; ".join(f"{topic}: no {', '.join(rights)}" for topic, rights in sorted(missing.items()))
    do = "grant them to the user whose roles need them (each role's are in schemas/topics.py)"
    return (fail if any("DESCRIBE" in rights for rights in missing.values()) else warn)("rights", named, do)


def check_clocks(broker_ms: float, workers: Iterable[tuple[int, Heartbeat]], now_ms: int) -> Check:
    """Check the broker's clock against ours, and find workers whose heartbeats come from the future."""
    ahead = {beat.worker_id: beat.sent_ms - now_ms for _, beat in workers if beat.sent_ms - now_ms > SKEW_WARN_MS}
    if abs(broker_ms) > SKEW_WARN_MS or ahead:
        others = "".join(f"; worker {name} is {ms} ms ahead" for name, ms in ahead.items())
        do = "run NTP on all machines: deadlines are absolute times"
        return warn("clocks", f"the broker's is {broker_ms:+.0f} ms from ours{others}", do)
    return ok("clocks", f"the broker's is {broker_ms:+.0f} ms from ours")


def check_worker_clocks(workers: Iterable[tuple[int, Heartbeat]], now_ms: int) -> Check | None:
    """Check the broker's clock by the workers' heartbeats; return None without heartbeats.

    This serves clusters where the doctor may not create a topic to ask the broker's time with.
    """
    beats = list(workers)
    if not beats:
        return None
    skew_ms = statistics.median(received_ms - beat.sent_ms for received_ms, beat in beats)
    ahead_ms = max(received_ms for received_ms, _ in beats) - now_ms
    check = check_clocks(skew_ms if ahead_ms <= SKEW_WARN_MS else ahead_ms, beats, now_ms)
    return replace(check, found=f"{check.found} (by heartbeats: no topic may be created to ask the time with)")


def check_disk(name: str, folder: str, free_bytes: int) -> Check:
    """Check that a GiB is free on a disk."""
    shown = f"{free_bytes / 2**30:.1f} GiB free under {folder}"
    if free_bytes < DISK_WARN_BYTES:
        return warn(name, shown, "free some: `pochade gc --dry-run` shows what deleting old images would free", "disk")
    return ok(name, shown, "disk")


def check_plan(
    plan: Plan | None, foreign: Sequence[int], now_ms: int, readiness: Mapping[str, str] = MappingProxyType({})
) -> Check:
    """Check that a plan is in force. A plan is published when it changes, so its age alone is no fault.

    `foreign`: offsets of the newest records in the place of plans that no planner has written. `readiness`: role -> why
    a process of it on this machine is not ready.
    """
    if plan is None and "planner" in readiness:
        why = readiness["planner"] or "is about to make the first"
        return starting("plan", f"none was published; the planner here {why}", "see the planner's log if it stays so")
    if plan is None:
        do = "pochade serve planner; routers hold every request until there is a plan"
        return fail("plan", "none was published", do)
    shown = f"version {plan.version} by {plan.policy}, {(now_ms - plan.created_ms) / 1000:.0f} s old"
    if foreign:
        written = f"{counted(len(foreign), 'plan')} that no planner has written, the newest at offset {foreign[-1]}"
        do = "the leading planner overrules them; only rights keep others from writing: `pochade topics acls`"
        return warn("plan", f"{shown}; on the topic lies {written}", do)
    return ok("plan", shown)


def check_workers(
    beats: Mapping[str, ReceivedHeartbeat],
    silent_ms: int,
    now_ms: int,
    *,
    is_scaled_to_zero: bool = False,
    plan: Plan | None = None,
    readiness: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Check, list[Heartbeat]]:
    """Check the workers, and return those alive. `beats`: of each worker; `readiness`: as of a plan."""
    seen = Deployment(now_ms=now_ms, silent_ms=silent_ms, plan=plan, heartbeats=beats)
    live = [beat.heartbeat for beat in beats.values() if is_alive(beat, now_ms, silent_ms)]
    failed = [beat for beat in live if beat.state in OUT]
    if failed:
        named = "; ".join(f"{beat.worker_id} is {beat.state}: {beat.detail or 'no reason given'}" for beat in failed)
        return fail("workers", f"{len(live)} live, not serving: {named}", "see the worker's log"), live
    if not live:
        do = "pochade serve worker; jobs wait on their topics until one comes"
        if is_scaled_to_zero:
            return warn("workers", "none lives, as the plan scales every level to zero", do), live
        if "worker" in readiness:
            why = readiness["worker"] or "has sent no heartbeat"
            return starting("workers", f"none lives; a worker here {why}", "see the worker's log if it stays so"), live
        return fail("workers", "; ".join(["none lives", *(each.what for each in troubles(seen))]), do), live
    shown = f"{len(live)} live: {', '.join(_worker_in_words(beat, plan) for beat in live)}"
    if not is_scaled_to_zero and all(beat.state in BEGINNING for beat in live):
        return starting("workers", f"{shown}; none is ready", "see the workers' logs if it stays so"), live
    if doubtful := (*overdue(seen), *troubles(seen)):
        return warn("workers", "; ".join([shown, *(each.what for each in doubtful)]), doubtful[0].do), live
    return ok("workers", shown), live


def _worker_in_words(beat: Heartbeat, plan: Plan | None) -> str:
    wanted = plan.allocation.get(beat.worker_id, beat.variant) if plan else beat.variant
    ordered = "" if wanted == beat.variant else f"; the plan gives it {wanted}"
    return f"{beat.worker_id} ({beat.variant or 'no variant'}, {beat.state}{ordered})"


def check_certificate(expires: datetime, now: datetime) -> Check:
    """Warn of a certificate that signs receipts and expires soon: after that, images are no longer signed."""
    shown = f"the certificate that signs them expires on {expires:%F}"
    if expires - now > timedelta(days=EXPIRY_DAYS):
        return ok("receipts", shown)
    left = f"in {counted(max(0, (expires - now).days), 'day')}"
    do = "have it issued anew and replace receipts.certificate, with its key in receipts.key: workers read both again"
    return warn("receipts", f"{shown}, {left}", do)


def check_safety(checked: Mapping[str, bool], checker: str) -> Check:
    """Check that no worker stores images unchecked where others check theirs, or where the settings name a checker.

    `checked`: live worker -> whether the safety check saw its newest image; those without a recent image are left out.
    """
    name = "safety"
    without = sorted(worker for worker, is_checked in checked.items() if not is_checked)
    if without and len(without) < len(checked):
        others = counted(len(checked) - len(without), "worker")
        shown = f"{', '.join(without)} stored the newest image unchecked, {others} checked it"
    elif without and checker:
        shown = f"safety.checker is {checker} here, but {', '.join(without)} stored the newest image unchecked"
    elif without:
        return ok(name, f"no image is checked by {counted(len(without), 'worker')}, as no checker is set")
    elif checked:
        return ok(name, f"the newest image of {counted(len(checked), 'worker')} was checked")
    else:
        return ok(name, "no live worker has stored an image lately")
    return warn(name, shown, "set the same safety.checker for all workers, and start these again")


def check_dead_letters(ours: int, clients: int, unread: int = 0) -> Check:
    """Warn of dead letters in the last hour, but for `clients`: those of what a client sent wrongly.

    `unread`: of `ours`, those of records that were set aside, whose requests stay open.
    """
    besides = f"; besides, {counted(clients, 'error')} of clients" if clients else ""
    if unread:
        do = "pochade dlq redrive, once the release or registry that knows their schemas is there; then pochade audit"
        aside = f"{unread} of them of records set aside as unread"
        return warn("dead letters", f"{ours} in the last hour, {aside}{besides}", do)
    if ours:
        return warn("dead letters", f"{ours} in the last hour{besides}", "pochade dlq ls --since 1h")
    return ok("dead letters", f"none in the last hour{besides}")


def check_models(missing: Sequence[str], catalog: str, on_one_card: Sequence[str] = ()) -> Check:
    """Check that the catalog's model folders are on this machine.

    `on_one_card`: variants whose workers all go to the same card, as the catalog names it.
    """
    if missing:
        do = "correct the catalog, or copy the folders to where workers run"
        return fail("models", f"catalog {catalog}: no folder for {'; '.join(missing)}", do)
    if on_one_card:
        do = "remove loading.device there, and use `pochade scale --devices` or worker.device"
        return warn("models", f"catalog {catalog} puts all workers of {', '.join(on_one_card)} on one card", do)
    return ok("models", f"every folder that catalog {catalog} names is here")


def check_quality(levels: Sequence[str], unknown: Sequence[str], catalog: str) -> Check:
    """Warn of levels without a measured quality, `unknown`. `catalog`: as the setting names it."""
    do = f"pochade profile --catalog {catalog} --prompt-file FILE --scorer CLIP --write"
    if not unknown or len(levels) == 1:
        return ok("quality", f"that of every level of catalog {catalog} is known")
    if len(unknown) == len(levels):
        return warn(
            "quality", f"catalog {catalog}: none is measured, so that a slower level counts as a better one", do
        )
    worst = "a level of unknown quality counts as the worst, and plans may not serve it"
    return warn("quality", f"catalog {catalog}: that of {', '.join(unknown)} is not measured: {worst}", do)


def check_visibility(found: Mapping[str, Found]) -> Check | None:
    """Warn where this user may not see how topics are configured; return None where it may."""
    hidden = sorted(topic.name for topic in found.values() if not topic.is_config_visible)
    if not hidden:
        return None
    what = f"of {', '.join(hidden)}: retention, sizes and copies in sync are not checked"
    return warn("configuration", f"this user may not see that {what}", "grant DESCRIBE_CONFIGS on the topics")


def check_copies(found: Mapping[str, Found], brokers: int) -> Check:
    """Check that a broker may be lost: two copies of each topic or more, and two in sync before a write is acked."""
    least = min((topic.replicas for topic in found.values()), default=0)
    shown = f"at least {least} of each topic on {counted(brokers, 'broker')}"
    never = sorted(t.name for t in found.values() if t.is_config_visible and _in_sync(t) > t.replicas)
    if never:
        do = "lower min.insync.replicas of these topics, or give them more copies"
        return fail("copies", f"{', '.join(never)}: more must be in sync than there are, nothing can be written", do)
    if lagging := sum(topic.lagging for topic in found.values()):
        of = counted(sum(topic.partitions for topic in found.values()), "partition")
        do = (
            "start the broker that is away, on an empty disk if its own is lost (RESTORE.md); nothing is lost meanwhile"
        )
        return warn("copies", f"of {lagging} of {of} a copy is away or has not caught up", do)
    if brokers < SEVERAL:
        return ok("copies", shown)
    if single := sorted(t.name for t in found.values() if t.replicas < 2):
        do = "kafka-reassign-partitions.sh, and default.replication.factor=3 for new topics"
        return warn("copies", f"one copy only of {', '.join(single)}: a broker that is lost takes records along", do)
    if early := sorted(t.name for t in found.values() if t.is_config_visible and _in_sync(t) < 2):
        do = "kafka-configs.sh --alter --entity-type topics --add-config min.insync.replicas=2"
        return warn("copies", f"acknowledged with one copy in sync (min.insync.replicas 1): {', '.join(early)}", do)
    if stiff := sorted(t.name for t in found.values() if t.is_config_visible and _in_sync(t) == t.replicas):
        do = "give them one copy more than min.insync.replicas"
        return warn("copies", f"every copy must be in sync: one broker away stops {', '.join(stiff)}", do)
    return ok("copies", shown)


def _in_sync(topic: Found) -> int:
    return int(topic.config.get("min.insync.replicas", "1"))


def check_sizes(found: Mapping[str, Found]) -> Check:
    """Check that each topic takes the largest record that we may write; a request with a larger one ends FAILED."""
    smaller = [
        f"{topic.name} {limit}"
        for topic in TABLE
        if topic.name in found
        and NATURAL.fullmatch(limit := found[topic.name].config.get("max.message.bytes", ""))
        and int(limit) < int(topic.config.get("max.message.bytes", "0"))
    ]
    if smaller:
        do = "raise max.message.bytes to 1048576; else requests whose records are larger end FAILED"
        return warn("record sizes", f"smaller than the table's (bytes): {', '.join(smaller)}", do)
    return ok("record sizes", "every topic takes the largest record of the table")


def check_groups(protocol: Protocol, wanted_ms: int, found: Timeouts | None, why_not: str) -> Check:
    """Check that a group can be joined, by which protocol, and after how long a silence a member is missed.

    `why_not`: the reason why the group could not be joined; empty where it could.
    """
    name, shown = "consumer groups", f"group.protocol={protocol.value} works"
    if why_not:
        do = "allow READ on the groups PREFIX.*; kafka.group_protocol and kafka.session_timeout_ms may be the cause"
        return fail(name, f"group.protocol={protocol.value}: {why_not}", do)
    late = describe(wanted_ms, found, "the cluster decided so")
    if late:
        do = "lower the brokers' group.consumer.min.session.timeout.ms, or grant ALTER_CONFIGS on the groups PREFIX.*"
        return warn(name, f"{shown}, but {late}", do)
    if protocol is Protocol.CLASSIC:
        return warn(name, f"{shown}; the cluster has no consumer protocol (KIP-848)", "Kafka 4.0 or newer, if you can")
    missed_s = found.session_ms / 1000 if found else wanted_ms / 1000
    return ok(name, f"{shown} (KIP-848), a silent member is missed after {missed_s:g} s")


def check_role(role: str, topic: str, seen: Attendance, readiness: Mapping[str, str] = MappingProxyType({})) -> Check:
    """Check that the group of a role has members, and how old the oldest record is that they have not read.

    `readiness`: role -> why a process of it on this machine is not ready.
    """
    waits = f"{counted(seen.behind, 'record')} of {topic} {'waits' if seen.behind == 1 else 'wait'}"
    if seen.oldest_s is not None:
        waits += f", the oldest for {seen.oldest_s:.0f} s"
    do = f"pochade serve {role.removesuffix('-batch')}; if it runs, see its log and /readyz"
    process = role.removesuffix("-batch")
    if seen.members == 0 and process in readiness:
        why = readiness.get(role) or readiness[process] or "joins its group"
        return starting(role, f"the {process} here {why}; {waits}", "see its log if it stays so", "roles")
    if seen.members == 0:
        return fail(role, f"no member serves, {waits}", do, "roles")
    age_s = 0.0 if seen.oldest_s is None or topic == PROMPTS_BATCH else seen.oldest_s  # these wait at their gate
    if age_s > STUCK_S:
        return fail(
            role, f"it is stuck or too slow: {waits}", f"see its log and /readyz, or start another {role}", "roles"
        )
    if seen.members is None:
        grant = "grant DESCRIBE on the groups PREFIX.*"
        return warn(role, f"this user may not see its members; {waits}", grant, "roles")
    shown = f"{counted(seen.members, 'member')}, {waits}"
    return (
        warn(role, shown, f"start another {role}, or see its log", "roles")
        if age_s > OLD_S
        else ok(role, shown, "roles")
    )


def check_gateway(readiness: Mapping[str, str]) -> Iterator[Check]:
    """Yield whether the gateway of this machine answers; nothing where none runs. `readiness`: as `check_role` has."""
    why = readiness.get(GATEWAY)
    if why == "":
        yield ok(GATEWAY, "the gateway here answers")
    elif why == NO_ANSWER:
        yield fail(GATEWAY, f"the gateway here runs and {why}", "see its log, stop it, and `pochade serve gateway`")
    elif why is not None:
        yield starting(GATEWAY, f"the gateway here {why}", "see its log if it stays so")


def check_queue(topic: str, seen: Attendance, serving: int, limit_s: float, *, is_scaled_to_zero: bool) -> Check:
    """Check the jobs of a level, or those that wait until one of its workers is idle. `serving`: its live workers.

    `limit_s`: age of the oldest job that is still in order: it may wait, and stays there until it is done.
    """
    match = OF_VARIANT.fullmatch(topic)
    level = match[1] if match else topic
    name, is_waiting = f"queue {topic.rpartition('.')[0]}", topic.startswith("waiting.")
    if not seen.behind:
        return ok(name, "no job waits", "queues")
    shown = waiting_in_words((level,), seen.behind, seen.oldest_s, is_served=serving > 0)
    if is_waiting and seen.members == 0:
        do = "pochade serve router; if it runs, see its log"
        return fail(name, f"{shown}, and no router forwards them", do, "queues")
    do = f"pochade fleet; serve more workers, or see the logs of those of {level}"
    if seen.oldest_s is None or seen.oldest_s <= limit_s:
        return ok(name, shown, "queues") if serving or is_scaled_to_zero else warn(name, shown, do, "queues")
    if is_scaled_to_zero:
        return warn(name, f"{shown}, as the plan scales it to zero", do, "queues")
    return fail(name, shown, do, "queues")


def check_strangers(seen: Mapping[str, Attendance]) -> Check:
    """Check that only our clients are members of the groups of roles. `seen`: group -> its attendance."""
    if strangers := {group: each.strangers for group, each in seen.items() if each.strangers}:
        named = "; ".join(f"{group}: {', '.join(names)}" for group, names in strangers.items())
        do = "stop them or give them another group.id: they are given partitions, whose requests wait"
        return fail("strangers", named, f"{do}; a role of an earlier release is named too, until it is upgraded")
    if hidden := [group for group, each in seen.items() if each.members is None]:
        do = "grant DESCRIBE on the groups PREFIX.*"
        return warn("strangers", f"this user may not see the members of {', '.join(hidden)}", do)
    return ok("strangers", f"every member of {counted(len(seen), 'group')} is a client of ours")


def check_deletions(found: Sequence[str]) -> Check:
    """Check that nothing was deleted before it was read. `found`: a sentence for each span of offsets."""
    if found:
        do = "pochade audit names the requests that are lost; raise retention.ms and retention.bytes of these topics"
        return fail("deleted unread", "; ".join(found), do)
    return ok("deleted unread", "no role has missed a record")


def check_rights_in_force(*, is_in_force: bool | None, beyond: Sequence[str]) -> Check:
    """Check that a cluster that others can reach checks rights. `beyond`: hosts of brokers that are not loopback.

    `is_in_force`: None if the cluster does not say.
    """
    name, do = "rights in force", "set the brokers' authorizer.class.name, then `pochade topics acls --apply`"
    if is_in_force:
        return ok(name, "the cluster checks what each user may do")
    if is_in_force is None:
        return warn(name, "the cluster does not say whether it checks rights", "see its documentation")
    if beyond:
        return fail(name, f"none are checked: each client that reaches {', '.join(beyond)} may write every topic", do)
    return ok(name, "the cluster checks none, and listens on loopback: each user of this machine may write every topic")


def check_encryption(protocol: str, beyond: Sequence[str]) -> Check:
    """Check that connections to brokers are encrypted. `beyond`: hosts of brokers that are not loopback."""
    if not beyond or protocol.endswith("SSL"):
        return ok("encryption", f"connections are {protocol}" if beyond else "brokers listen on loopback alone")
    do = "give the brokers a listener with TLS, and set kafka.properties (streams/security/README.md)"
    return warn("encryption", f"connections to {', '.join(beyond)} are {protocol}, which can be read on the way", do)


def check_leader(
    beat_ms: int, silent_ms: int, now_ms: int, readiness: Mapping[str, str] = MappingProxyType({})
) -> Check:
    """Check that a planner leads. `beat_ms`: epoch ms of the newest beat of any leader; 0: none, or it resigned.

    `readiness`: role -> why a process of it on this machine is not ready.
    """
    do = "pochade serve planner; until then the plan in force stays"
    if not beat_ms and readiness.get("planner"):
        do = "see the planner's log if it stays so; until then the plan in force stays"
        return warn("planner", f"none leads; the planner here {readiness['planner']}", do)
    if not beat_ms:
        return warn("planner", "none leads", do)
    silent = now_ms - beat_ms
    if silent > silent_ms:
        return warn("planner", f"the one that led fell silent {silent / 1000:.0f} s ago", do)
    return ok("planner", "one leads")
