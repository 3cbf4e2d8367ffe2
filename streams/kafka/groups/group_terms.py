"""Rules for a consumer group's protocol and for its timeouts, without a client.

A cluster since Kafka 4.0 keeps a group's members itself (KIP-848, `group.protocol=consumer`) and takes their timeouts
as settings of the group, within the brokers' limits. Older ones, and Redpanda, know only the classic protocol, where
the members bring their timeouts along.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

BEATS = 9  # of a member in a session: with Kafka's shortest session (45 s) its shortest interval (5 s)
CLASSIC_BEATS = 3  # what Kafka advises; a classic member learns of a rebalance at its next heartbeat
CONSUMER_CONFIG = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms")  # of a group, on the cluster


class Protocol(StrEnum):
    """Values of librdkafka's `group.protocol`."""

    CONSUMER = "consumer"
    CLASSIC = "classic"


class Trial(StrEnum):
    """The outcome of joining a group with the consumer protocol."""

    JOINED = "joined"
    REFUSED = "refused"  # the cluster does not speak it
    UNKNOWN = "unknown"  # no right to join, or no answer


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts of a group: a member is dropped after `session_ms` without a heartbeat; one comes every `beat_ms`."""

    session_ms: int
    beat_ms: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The ranges that the brokers allow, both ends included."""

    session_ms: tuple[int, int]
    beat_ms: tuple[int, int]


STOCK = Limits((45_000, 60_000), (5_000, 15_000))  # Kafka 4's own
STOCK_CLASSIC = Limits((6_000, 1_800_000), (1, 1_800_000))  # Kafka's own since 0.10; beats are the member's business


def group_beat_ms(session_ms: int) -> int:
    """Between two heartbeats of a group's member. Partitions change hands at heartbeats: a worker that changes its
    variant waits for one or two of them."""
    return session_ms // BEATS


def wanted_timeouts(session_ms: int) -> Timeouts:
    """Return the timeouts that a group of the consumer protocol is asked to keep."""
    return Timeouts(session_ms, group_beat_ms(session_ms))


def chosen(asked: str, knows_group_settings: bool, trial: Trial) -> Protocol:
    """Return the protocol of this deployment's groups. `asked`: `auto`, or one of the two, which is then taken.

    `knows_group_settings`: whether the cluster has settings of groups, as every Kafka since 4.0 has.
    """
    if asked != "auto":
        return Protocol(asked)
    if trial is Trial.UNKNOWN:
        return Protocol.CONSUMER if knows_group_settings else Protocol.CLASSIC
    return Protocol.CONSUMER if trial is Trial.JOINED else Protocol.CLASSIC


def limits_in(broker: Mapping[str, str | None], stock: Limits = STOCK) -> Limits:
    """Return the limits for groups of the consumer protocol in a broker's settings, else Kafka's defaults."""
    return Limits(
        _span(broker, "group.consumer.{}.session.timeout.ms", stock.session_ms),
        _span(broker, "group.consumer.{}.heartbeat.interval.ms", stock.beat_ms),
    )


def classic_limits_in(broker: Mapping[str, str | None]) -> Limits:
    """A broker's limits for classic groups."""
    return Limits(_span(broker, "group.{}.session.timeout.ms", STOCK_CLASSIC.session_ms), STOCK_CLASSIC.beat_ms)


def nearest(wanted: Timeouts, limits: Limits, beats: int = BEATS) -> Timeouts:
    """Return the timeouts nearest to the wanted session within the limits, with as many heartbeats as they allow."""
    session_ms = _within(wanted.session_ms, limits.session_ms)
    beat_ms = wanted.beat_ms if session_ms == wanted.session_ms else session_ms // beats
    return Timeouts(session_ms, _within(beat_ms, limits.beat_ms))


def describe(wanted_ms: int, found: Timeouts | None, why: str) -> str:
    """Describe the effect of a group's other timeouts than the wanted ones; "" where it drops members in time."""
    if found is None:
        return f"groups miss a silent member when the cluster says (in Kafka 4 after 45 s unless set): {why}"
    if found.session_ms <= wanted_ms:
        return ""
    return (
        f"groups miss a silent member after {found.session_ms / 1000:g} s, not after kafka.session_timeout_ms = "
        f"{wanted_ms / 1000:g} s, so the jobs of a worker that dies wait as long: {why}"
    )


def _span(broker: Mapping[str, str | None], name: str, stock: tuple[int, int]) -> tuple[int, int]:
    least, most = (broker.get(name.format(end)) for end in ("min", "max"))
    return int(least or stock[0]), int(most or stock[1])


def _within(value: int, span: tuple[int, int]) -> int:
    return max(span[0], min(value, span[1]))
