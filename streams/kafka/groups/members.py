"""Asks the cluster for the members of a group, and whether one of them must join anew.

That is a member that owns no partition though no other has them all, or one that is given no record that lies there.
"""

import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException

from schemas.errors import PochadeError
from streams.kafka.clients import ANSWER_LIMIT_S, ClusterSettings, client_config
from streams.kafka.groups.description import Member, described
from streams.kafka.groups.fetch_watch import FetchWatch

SETTLES_S = 10.0  # a cluster that has just begun has no coordinator of groups until one was asked for
SETTLING = {
    KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR,
}  # fmt: skip
SESSIONS = 3  # without a partition, before the cluster is asked: a change of owners takes one or two


class MembershipLost(PochadeError):
    """The cluster has given a member's partitions to no member, or the member is given no records of them."""


def members(cluster: ClusterSettings, group: str, limit_s: float = ANSWER_LIMIT_S) -> dict[str, Member]:
    """Return member id -> member. `limit_s`: longest time for the cluster's answer.

    Raises:
        KafkaException: the cluster does not answer in time, refuses this user, or knows of no such group
            (GROUP_ID_NOT_FOUND).
    """
    found = described(client_config(cluster), [group], limit_s=limit_s)[group]
    if isinstance(found, KafkaError):
        raise KafkaException(found)
    return found.members


def members_of(cluster: ClusterSettings, group: str, limit_s: float = ANSWER_LIMIT_S) -> dict[str, int]:
    """Return member id -> number of partitions that the cluster has given it. `limit_s`, errors: as of `members`."""
    return {name: each.partitions for name, each in members(cluster, group, limit_s).items()}


def is_lost(member_id: str, partitions: Mapping[str, int]) -> bool:
    """Whether a member that owns nothing should join anew. `partitions`: member -> how many the cluster gave it.

    A spare member, which the cluster knows and has nothing for as others have all, stays.
    """
    if member_id not in partitions or partitions[member_id] > 0:
        return True
    return not any(partitions.values())


class IdleMember:
    """Watches one member for the case that librdkafka and the cluster disagree about it, or about its partitions.

    A broker that died while a worker joined has left it without partitions for five minutes, alive and alone in its
    group (seen once, in a run of `chaos` with 5,000 requests). Not thread-safe: asked by the thread that polls.
    """

    def __init__(self, cluster: ClusterSettings, group: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._group = group
        self._clock_s = clock_s
        self._wait_s = SESSIONS * cluster.kafka.session_timeout_ms / 1000
        self._idle_since_s: float | None = None
        self._doubts = 0
        self._fetches = FetchWatch(cluster, clock_s)

    def check(self, consumer: Consumer, owned: int, *, is_served: bool) -> None:
        """Check between two polls; the member owns the partitions `owned`.

        `is_served`: the last poll gave a record, or the member reads nothing for now.

        Raises:
            MembershipLost: twice in a row the cluster did not count on it, a few sessions apart, or held a record for
                it that it was not given.
        """
        if left := self._fetches.left_behind(consumer, is_served=is_served or not owned):
            places = ", ".join(f"{topic} [{partition}]" for topic, partition in left)
            raise MembershipLost(f"group {self._group} gives this member no records, though some lie on {places}")
        now_s = self._clock_s()
        if owned or self._idle_since_s is None:
            self._idle_since_s, self._doubts = (None if owned else now_s), 0
            return
        if now_s - self._idle_since_s < self._wait_s:
            return
        self._idle_since_s = now_s
        self._doubts = self._doubts + 1 if self._is_lost(consumer) else 0
        if self._doubts > 1:
            raise MembershipLost(
                f"group {self._group} has had no partition for this member for {2 * self._wait_s:g} s, though no other "
                "member has them all"
            )

    def _is_lost(self, consumer: Consumer) -> bool:
        try:
            given = members_of(self._cluster, self._group)
        except KafkaException:
            return False  # no answer is no evidence: the cluster is asked again
        return is_lost(consumer.memberid(), given)


def has_members(cluster: ClusterSettings, group: str) -> bool:
    """Return whether a group has a member; one that never was has none.

    Raises PochadeError: the cluster does not answer, or this user may not see the group.
    """
    end_s = time.monotonic() + SETTLES_S
    while True:
        try:
            return bool(members_of(cluster, group))
        except KafkaException as failure:
            error = failure.args[0]
            if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
                return False
            if error.code() not in SETTLING or time.monotonic() >= end_s:
                raise PochadeError(f"cannot see the members of {group}: {error.name()} {error.str()}") from None
        time.sleep(0.2)
