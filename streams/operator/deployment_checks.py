"""What `doctor` makes of a cluster that is not ours: copies, sizes, groups, and which roles serve at all."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from schemas.topics import CLASSIFIED, IMAGES, OUTCOMES, PROMPTS, TABLE
from streams.kafka.group_terms import Protocol, Timeouts, told
from streams.operator.checks import Check, fail, ok, warn
from streams.operator.cluster import Found

READS = {"classifier": PROMPTS, "router": CLASSIFIED, "discriminator": IMAGES, "ledger": OUTCOMES}
BEHIND = 1000  # records; roles commit every half second, so that a busy one is always some behind
SEVERAL = 3  # brokers from which one may be lost without losing records
NATURAL = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Attendance:
    """Who reads a topic for a role."""

    members: int | None  # None: this user may not see them
    behind: int  # records that its group has not committed


def check_told(found: Mapping[str, Found]) -> Check | None:
    """Whether this user may see how topics are configured; None where it may."""
    hidden = sorted(topic.name for topic in found.values() if not topic.is_told)
    if not hidden:
        return None
    what = f"of {', '.join(hidden)}: retention, sizes and copies in sync are not checked"
    return warn("configuration", f"this user may not see that {what}", "grant DESCRIBE_CONFIGS on the topics")


def check_copies(found: Mapping[str, Found], brokers: int) -> Check:
    """Whether a broker may be lost: as many copies as the cluster has room for, and two in sync before an ack."""
    least = min((topic.replicas for topic in found.values()), default=0)
    shown = f"at least {least} of each topic on {brokers} brokers"
    never = sorted(t.name for t in found.values() if t.is_told and _in_sync(t) > t.replicas)
    if never:
        do = "lower min.insync.replicas of these topics, or give them more copies"
        return fail("copies", f"{', '.join(never)}: more must be in sync than there are, nothing can be written", do)
    if brokers < SEVERAL:
        return ok("copies", shown)
    if single := sorted(t.name for t in found.values() if t.replicas < 2):
        do = "kafka-reassign-partitions.sh, and default.replication.factor=3 for new topics"
        return warn("copies", f"one copy only of {', '.join(single)}: a broker that is lost takes records along", do)
    if early := sorted(t.name for t in found.values() if t.is_told and _in_sync(t) < 2):
        do = "kafka-configs.sh --alter --entity-type topics --add-config min.insync.replicas=2"
        return warn("copies", f"acknowledged with one copy in sync (min.insync.replicas 1): {', '.join(early)}", do)
    if stiff := sorted(t.name for t in found.values() if t.is_told and _in_sync(t) == t.replicas):
        do = "give them one copy more than min.insync.replicas"
        return warn("copies", f"every copy must be in sync: one broker away stops {', '.join(stiff)}", do)
    return ok("copies", shown)


def check_sizes(found: Mapping[str, Found]) -> Check:
    """Whether each topic takes records as large as we may write; a larger one than a topic takes ends FAILED."""
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
    return ok("record sizes", "every topic takes what we may write")


def check_groups(protocol: Protocol, wanted_ms: int, found: Timeouts | None, why_not: str) -> Check:
    """Whether a group can be joined, by which protocol, and after what silence a member is missed.

    `why_not`: what stood in the way of joining; empty: nothing did.
    """
    name, shown = "consumer groups", f"group.protocol={protocol.value} works"
    if why_not:
        do = "allow READ on the groups PREFIX.*; kafka.group_protocol and kafka.session_timeout_ms may be the cause"
        return fail(name, f"group.protocol={protocol.value}: {why_not}", do)
    late = told(wanted_ms, found, "the cluster decided so")
    if late:
        do = "lower the brokers' group.consumer.min.session.timeout.ms, or grant ALTER_CONFIGS on the groups PREFIX.*"
        return warn(name, f"{shown}, but {late}", do)
    if protocol is Protocol.CLASSIC:
        return warn(name, f"{shown}; the cluster has no consumer protocol (KIP-848)", "Kafka 4.0 or newer, if you can")
    missed_s = found.session_ms / 1000 if found else wanted_ms / 1000
    return ok(name, f"{shown} (KIP-848), a silent member is missed after {missed_s:g} s")


def check_role(role: str, seen: Attendance) -> Check:
    """Whether somebody does a role's work, and how far behind it is."""
    topic = READS[role]
    waits = f"{seen.behind} records of {topic} wait"
    if seen.members is None:
        return warn(role, f"this user may not see its members; {waits}", "grant DESCRIBE on the groups PREFIX.*")
    if not seen.members:
        do = f"pochade serve {role}; if it runs, see its log"
        return fail(role, f"no member serves, {waits}", do) if seen.behind else warn(role, "no member serves", do)
    shown = f"{seen.members} member{'s' if seen.members > 1 else ''}, {waits}"
    return warn(role, shown, f"start another {role}, or see its log") if seen.behind > BEHIND else ok(role, shown)


def check_leader(beat_ms: int, silent_ms: int, now_ms: int) -> Check:
    """Whether a planner leads. `beat_ms`: the newest beat of any leader; 0: none, or it resigned."""
    do = "pochade serve planner; until then the plan in force stays"
    if not beat_ms:
        return warn("planner", "none leads", do)
    silent = now_ms - beat_ms
    if silent > silent_ms:
        return warn("planner", f"the one that led fell silent {silent / 1000:.0f} s ago", do)
    return ok("planner", "one leads")


def _in_sync(topic: Found) -> int:
    return int(topic.config.get("min.insync.replicas", "1"))
