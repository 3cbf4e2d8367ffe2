"""Asks the cluster how large a record each topic takes, at start and each minute, for as long as a process runs."""

import contextlib
import logging
import threading
from collections.abc import Iterator

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from schemas.errors import PochadeError
from streams.broker import probe
from streams.kafka.clients import client_config
from streams.kafka.producers.topic_limits import CONFIG, LIMITS, TopicLimits
from streams.settings import Settings

log = logging.getLogger(__name__)

ANSWER_LIMIT_S = 5.0
FIRST_ANSWER_S = 1.0  # that a process waits for when it starts
REFRESH_S = 60.0
ASK_SOON_S = 1.0  # until the first answer


def ask(settings: Settings, limits: TopicLimits = LIMITS) -> bool:
    """Ask the cluster for the limits of this deployment's topics; whether there is any. Blocks some seconds.

    Raises PochadeError: it does not answer, or does not let us ask (DESCRIBE_CONFIGS); what is known stays.
    """
    configured = _configured(settings)
    limits.learn(configured)
    return bool(configured)


@contextlib.contextmanager
def refreshed(settings: Settings, limits: TopicLimits = LIMITS) -> Iterator[TopicLimits]:
    """Refresh the limits now and each minute until the end of the block; refusals are logged.

    Missing topics are asked for again soon, as they may be created late. The block begins without waiting for the
    cluster's answer.
    """
    stopping, was_asked = threading.Event(), threading.Event()
    arguments = settings, limits, stopping, was_asked
    thread = threading.Thread(target=_keep_asking, args=arguments, name="topic-limits", daemon=True)
    thread.start()
    was_asked.wait(FIRST_ANSWER_S)
    try:
        yield limits
    finally:
        stopping.set()  # not joined: it may be asking a cluster that is away


def _keep_asking(
    settings: Settings, limits: TopicLimits, stopping: threading.Event, was_asked: threading.Event
) -> None:
    wait_s = ASK_SOON_S
    while not stopping.is_set():
        has_answered = _ask(settings, limits)
        was_asked.set()
        stopping.wait(REFRESH_S if has_answered else wait_s)
        wait_s = min(REFRESH_S, 2 * wait_s)


def _ask(settings: Settings, limits: TopicLimits) -> bool:
    try:
        return ask(settings, limits)
    except PochadeError as error:
        log.warning("what the topics take is learnt from what they refuse: %s", error)
        return False


def _configured(settings: Settings) -> dict[str, int]:
    config, prefix = client_config(settings), settings.kafka.prefix + "."
    names = [name for name in probe.probe(config, ANSWER_LIMIT_S).topics if name.startswith(prefix)]
    if not names:
        return {}
    client = AdminClient(config)  # must live until the answers are here
    asked = client.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    try:
        answers = {resource.name: future.result(ANSWER_LIMIT_S) for resource, future in asked.items()}
    except TimeoutError:
        raise PochadeError(f"cannot ask for {CONFIG}: no broker answers within {ANSWER_LIMIT_S:g} s") from None
    except KafkaException as error:
        raise PochadeError(f"cannot ask for {CONFIG} (grant DESCRIBE_CONFIGS on the topics): {error}") from None
    return {name.removeprefix(prefix): int(found[CONFIG].value) for name, found in answers.items()}
