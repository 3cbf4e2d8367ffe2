"""Whether a deployment can serve what is published to it: topics, every role, a plan, workers."""

from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError, KafkaException

from planner.observation.workers import is_alive
from schemas.errors import PochadeError
from schemas.messages import Heartbeat
from schemas.topics import FLEET, PLAN, PLAN_KEY, PROMPTS
from streams.clock import now_ms
from streams.control.heartbeats import newest_beats
from streams.kafka.clients import ANSWER_LIMIT_S, client_config
from streams.kafka.consumers import snapshot
from streams.kafka.groups.description import Group, described
from streams.kafka.topics import own_topics
from streams.settings import Settings

GROUPS = ("classifier", "router", "discriminator", "ledger")  # roles that share their work as PREFIX.ROLE
SINCE_MS = 60_000


class NoDeployment(PochadeError):
    """No deployment serves what is published here."""


def require(settings: Settings) -> list[Heartbeat]:
    """Return the deployment's live workers. Raises NoDeployment with what is missing, and how to start it."""
    prefix = settings.kafka.prefix
    if f"{prefix}.{PROMPTS}" not in own_topics(settings):
        raise NoDeployment(f"there are no topics {prefix}.*: {how(settings)}")
    now = now_ms()
    beats = newest_beats(snapshot.past(settings, [FLEET], since_ms=now - SINCE_MS)).values()
    workers = [beat.heartbeat for beat in beats if is_alive(beat, now, settings.planner.worker_timeout_ms)]
    has_plan = any(record.key == PLAN_KEY.encode() for record in snapshot.past(settings, [PLAN]))
    missing = absent(members(settings)) + ([] if workers else ["worker"]) + ([] if has_plan else ["planner"])
    if missing:
        raise NoDeployment(f"under {prefix}.* no {', no '.join(missing)} is running: {how(settings)}")
    return workers


def how(settings: Settings) -> str:
    """Return the commands that start the deployment."""
    return (
        "give --serve N to start roles with N workers for this run, or start them yourself with "
        f"`pochade --set kafka.prefix={settings.kafka.prefix} serve ROLE...`"
    )


def absent(found: Mapping[str, int]) -> list[str]:
    """Roles that have no member."""
    return [role for role in GROUPS if not found.get(role)]


def members(settings: Settings, roles: Collection[str] = GROUPS) -> dict[str, int]:
    """role -> processes in its group. A group that may not be looked at counts as served: the run will show.

    Raises PochadeError where the broker does not answer.
    """
    groups = {f"{settings.kafka.prefix}.{role}": role for role in roles}
    try:
        found = described(client_config(settings), list(groups))
    except KafkaException:
        message = f"the broker did not describe {', '.join(groups)} within {ANSWER_LIMIT_S:g} s: is it overloaded?"
        raise PochadeError(message) from None
    return {groups[name]: _count(group) for name, group in found.items()}


def _count(group: Group | KafkaError) -> int:
    if isinstance(group, KafkaError):
        return 0 if group.code() == KafkaError.GROUP_ID_NOT_FOUND else 1
    return len(group.members)
