"""Configures members of consumer groups: the protocol that the cluster speaks, with the timeouts that it allows.

The protocol is found once a process: by a setting, or by joining the group `PREFIX.doctor` for a moment. Nothing here
is repeated for ever: what the cluster refuses or does not show is done without, with one warning that says what that
means.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from schemas.errors import PochadeError
from schemas.topics import RESULTS, full_name
from streams.kafka.clients import ANSWER_LIMIT_S, client_config
from streams.kafka.consumers.consumer_factory import open_member
from streams.kafka.errors import may_pass
from streams.kafka.groups.group_terms import (
    CLASSIC_BEATS,
    CONSUMER_CONFIG,
    STOCK,
    STOCK_CLASSIC,
    Limits,
    Protocol,
    Timeouts,
    Trial,
    chosen,
    classic_limits_in,
    describe,
    limits_in,
    nearest,
    wanted_timeouts,
)
from streams.kafka.groups.members import members_of
from streams.settings import Settings

log = logging.getLogger(__name__)

ASK_S = 0.5  # between two questions whether the cluster lists a member that has no partition
TRIAL_S = 3.0  # a member had partitions or was refused after 0.1 s (measured)
SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)  # a refusal is fatal to one client, and an answer to us
DENIED = {KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
OLD = "it has no settings of groups"
LOWER = "the brokers' group.consumer.min/max.session.timeout.ms allow nothing nearer"
GRANT = "this user may not set it; grant ALTER_CONFIGS on the group, or set consumer.session.timeout.ms on it yourself"

_lock = threading.Lock()
_protocols: dict[tuple[str, str, str], Protocol] = {}  # (address, prefix, setting) -> what was found
_warned: set[str] = set()
_is_reported_otherwise = ContextVar("is_told_otherwise", default=False)


def member_config(settings: Settings, group: str) -> dict[str, Any]:
    """The configuration of a member that commits by itself, with the cluster ready for it. The group need not exist.

    Raises PochadeError: the cluster does not answer.
    """
    found = protocol(settings)
    begins: dict[str, Any] = {
        **client_config(settings), "group.id": group, "group.protocol": found.value, "enable.auto.commit": False,
    }  # fmt: skip
    if found is Protocol.CONSUMER:  # librdkafka refuses a member that brings its own timeouts or assignor
        set_timeouts(settings, group)
        return begins
    timeouts = classic_timeouts(settings)
    return begins | {
        "session.timeout.ms": timeouts.session_ms,
        "heartbeat.interval.ms": timeouts.beat_ms,
        "partition.assignment.strategy": "cooperative-sticky",  # eager ones make all members wait for the slowest job
    }


def protocol(settings: Settings) -> Protocol:
    """Return the protocol of this deployment's groups, found once per process.

    Raises PochadeError: the cluster does not answer.
    """
    asked = settings.kafka.group_protocol
    where = client_config(settings)["bootstrap.servers"], settings.kafka.prefix, asked
    with _lock:
        if where not in _protocols:
            _protocols[where] = _find_protocol(settings, asked)
        return _protocols[where]


def classic_timeouts(settings: Settings) -> Timeouts:
    """Return a classic member's timeouts: the nearest that the brokers allow, by Kafka's own limits if none answers.

    Raises PochadeError: the cluster does not answer.
    """
    session_ms = settings.kafka.session_timeout_ms
    wanted = Timeouts(session_ms, session_ms // CLASSIC_BEATS)
    config = _broker_config(_admin(settings))
    allowed = nearest(wanted, STOCK_CLASSIC if config is None else classic_limits_in(config), CLASSIC_BEATS)
    _warn(describe(session_ms, allowed, "the brokers' group.min/max.session.timeout.ms allow nothing nearer"))
    return allowed


def classic_settings(settings: Settings) -> Settings:
    """Return settings whose `kafka.session_timeout_ms` a client of the classic protocol, such as Faust's, may ask for.

    Raises PochadeError: the cluster does not answer.
    """
    session_ms = classic_timeouts(settings).session_ms
    kafka = settings.kafka.model_copy(update={"session_timeout_ms": session_ms})
    return settings.model_copy(update={"kafka": kafka})


def set_timeouts(settings: Settings, group: str) -> Timeouts | None:
    """Have a group of the consumer protocol miss a silent member after `kafka.session_timeout_ms`, or as near to it as
    the cluster allows; what it keeps now, None where the cluster does not show it.

    Raises PochadeError: the cluster does not answer.
    """
    wanted, client = wanted_timeouts(settings.kafka.session_timeout_ms), _admin(settings)
    present = _timeouts_of(client, group)
    if present == wanted:
        return present
    refusal = _alter(client, group, wanted)
    if refusal is None:
        return wanted
    found, why = present, GRANT
    if refusal.code() == KafkaError.INVALID_CONFIG:
        found, why = _keep_nearest(client, group, wanted, present), LOWER
    _warn(describe(wanted.session_ms, found, f"{why} ({refusal.str()})"))
    return found


def knows_group_settings(settings: Settings, group: str) -> bool | None:
    """Whether the cluster has settings of groups, as every Kafka since 4.0 does; None without the right to ask.

    Raises PochadeError: the cluster does not answer.
    """
    try:
        return _timeouts_in(_described(_admin(settings), ConfigResource(ResourceType.GROUP, group))) is not None
    except KafkaException as failure:
        return None if _refusal(failure, f"see the settings of group {group}").code() in DENIED else False


def try_consumer_protocol(settings: Settings, group: str, topic: str) -> tuple[Trial, str]:
    """Join a group with the consumer protocol, reading `topic` (name without the prefix), for a moment; and why not."""
    member = {"group.id": group, "group.protocol": Protocol.CONSUMER.value, "enable.auto.commit": False}
    return _try(settings, {**client_config(settings), **member}, topic, TRIAL_S)


def _try(settings: Settings, member: Mapping[str, Any], topic: str, limit_s: float) -> tuple[Trial, str]:
    """Join a group for a moment; it counts who is given a partition, or whom the cluster lists among the members.

    Of processes that try at once one is given all partitions, and the others none until it has left.
    """
    said: list[str] = []
    gained: list[object] = []
    consumer = open_member(member, {"error_cb": lambda error: said.append(error.str()), "logger": SILENT})
    try:
        consumer.subscribe([full_name(settings.kafka.prefix, topic)], on_assign=lambda _, parts: gained.extend(parts))
        begun = asked = time.monotonic()
        while (now := time.monotonic()) < begun + limit_s and not gained:
            if now - asked >= ASK_S:
                asked = now
                gained += {consumer.memberid()} & set(_members(settings, member["group.id"]))
            message = consumer.poll(0.05)
            error = message.error() if message is not None else None
            if error is not None and (error.fatal() or error.code() == KafkaError._FATAL):
                return Trial.REFUSED, error.str()
            if error is not None and not may_pass(error):
                return Trial.UNKNOWN, error.str()
    except KafkaException as failure:
        return Trial.UNKNOWN, failure.args[0].str()
    finally:
        consumer.close()
    return (
        (Trial.JOINED, "")
        if gained
        else (Trial.UNKNOWN, "; ".join(dict.fromkeys(said)) or f"no partition within {limit_s:g} s")
    )


def timeouts(settings: Settings, group: str, protocol: Protocol) -> Timeouts | None:
    """Return the timeouts of a group, asked for as a member would; None where the cluster does not give them.

    Raises PochadeError: the cluster does not answer.
    """
    return set_timeouts(settings, group) if protocol is Protocol.CONSUMER else classic_timeouts(settings)


def why_not_joined(settings: Settings, group: str, topic: str) -> str:
    """Join a group as a role does, reading `topic` (name without the prefix), for a moment; empty if that worked.

    Raises PochadeError: the cluster does not answer.
    """
    trial, why = _try(settings, member_config(settings, group), topic, ANSWER_LIMIT_S)
    return "" if trial is Trial.JOINED else why


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """Log no warnings within the block: the caller reports them in another way."""
    before = _is_reported_otherwise.set(True)
    try:
        yield
    finally:
        _is_reported_otherwise.reset(before)


def _members(settings: Settings, group: str) -> Collection[str]:
    """The ids of a group's members, as far as this user may see them."""
    try:
        return members_of(settings, group, TRIAL_S)
    except KafkaException:
        return ()


def _find_protocol(settings: Settings, asked: str) -> Protocol:
    if asked != "auto":
        return Protocol(asked)
    group = f"{settings.kafka.prefix}.doctor"
    knows = knows_group_settings(settings, group)
    trial, why = try_consumer_protocol(settings, group, RESULTS) if knows is not False else (Trial.REFUSED, OLD)
    found = chosen(asked, knows is True, trial)
    if found is Protocol.CLASSIC:
        _warn(
            "this cluster does not know the consumer protocol of Kafka 4.0 (KIP-848), groups use the classic one: when "
            f"a worker comes or goes, the others of its variant wait for the slowest job ({why})"
        )
    return found


def _keep_nearest(client: AdminClient, group: str, wanted: Timeouts, present: Timeouts | None) -> Timeouts | None:
    allowed = nearest(wanted, _consumer_limits(client))
    if allowed == present or _alter(client, group, allowed) is None:
        return allowed
    return present


def _consumer_limits(client: AdminClient) -> Limits:
    config = _broker_config(client)
    return STOCK if config is None else limits_in(config)


def _alter(client: AdminClient, group: str, timeouts: Timeouts) -> KafkaError | None:
    """Set the timeouts of a group; return None, or the cluster's objection."""
    values = zip(CONSUMER_CONFIG, (timeouts.session_ms, timeouts.beat_ms), strict=True)
    entries = [ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET) for name, value in values]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    try:
        client.incremental_alter_configs([resource], request_timeout=ANSWER_LIMIT_S)[resource].result(
            2 * ANSWER_LIMIT_S
        )
    except KafkaException as failure:
        return _refusal(failure, f"set the timeouts of group {group}")
    return None


def _timeouts_of(client: AdminClient, group: str) -> Timeouts | None:
    """Return a group's timeouts; None where the cluster has no settings of groups, or this user may not see them."""
    return _timeouts_in(_describe(client, ConfigResource(ResourceType.GROUP, group)) or {})


def _timeouts_in(config: Mapping[str, str | None]) -> Timeouts | None:
    session_ms, beat_ms = (config.get(name) for name in CONSUMER_CONFIG)
    return Timeouts(int(session_ms), int(beat_ms)) if session_ms and beat_ms else None


def _broker_config(client: AdminClient) -> dict[str, str | None] | None:
    """Return one broker's settings; None where this user may not see them."""
    try:
        brokers = client.list_topics(timeout=ANSWER_LIMIT_S).brokers
    except KafkaException as failure:
        _refusal(failure, "see the brokers")
        return None
    return _describe(client, ConfigResource(ResourceType.BROKER, str(min(brokers)))) if brokers else None


def _describe(client: AdminClient, resource: ConfigResource) -> dict[str, str | None] | None:
    try:
        return _described(client, resource)
    except KafkaException as failure:
        _refusal(failure, f"see the settings of {resource.restype.name.lower()} {resource.name}")
        return None


def _described(client: AdminClient, resource: ConfigResource) -> dict[str, str | None]:
    answers = client.describe_configs([resource], request_timeout=ANSWER_LIMIT_S)
    return {name: entry.value for name, entry in answers[resource].result(2 * ANSWER_LIMIT_S).items()}


def _refusal(failure: KafkaException, what: str) -> KafkaError:
    """Return the refusal in an error that is final. Raises PochadeError for one that may pass."""
    error: KafkaError = failure.args[0]
    if may_pass(error):
        raise PochadeError(f"cannot {what}: {error.str()}") from failure
    return error


def _admin(settings: Settings) -> AdminClient:
    return AdminClient(client_config(settings))


def _warn(text: str) -> None:
    """Once a process: a worker opens a group with each variant."""
    if text and text not in _warned and not _is_reported_otherwise.get():
        _warned.add(text)
        log.warning("%s", text)
