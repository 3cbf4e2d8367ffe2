"""Checks that a Kafka cluster answers, and if not, why: librdkafka reports wrong passwords only to a callback."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from schemas.errors import PochadeError
from streams.broker.address import is_foreign
from streams.kafka.clients import config_of
from streams.security.refusals import plain, remedy
from streams.settings import Settings

TRY_S = 0.5
FOREIGN_LIMIT_S = 5.0
CONFIGURE_HINT = "check POCHADE_KAFKA__BOOTSTRAP_SERVERS and, for TLS or a password, [kafka.properties] in pochade.toml"
REFUSED_S = 2.0  # another broker of the list may let us in, or a restarted one does not know its users yet


class Unreachable(PochadeError):
    """No broker answers at the address, or it refuses the connection."""


class NotLetIn(Unreachable):
    """The cluster answers, but the password or a certificate is wrong; the message says which, and what to do."""


def starting_config(bootstrap: str) -> dict[str, str]:
    """Return a client configuration that tries to connect every few milliseconds, for a broker that is starting."""
    return config_of(bootstrap, {"reconnect.backoff.ms": "10", "reconnect.backoff.max.ms": "20"})


def probe(config: Mapping[str, str], timeout_s: float, is_alive: Callable[[], bool] = lambda: True) -> Any:
    """Return the cluster's metadata (`AdminClient.list_topics`), as soon as it answers.

    Raises:
        NotLetIn: a broker refuses the password or certificate, or shows none that is trusted; raised after REFUSED_S.
        Unreachable: no answer within `timeout_s`, or `is_alive` said that waiting is in vain. The message carries what
            librdkafka reported meanwhile.
    """
    reported: dict[str, None] = {}  # in order, once each
    client = _client(config, lambda error: reported.setdefault(error.str()))
    begun = time.monotonic()
    deadline = begun + timeout_s
    while time.monotonic() < deadline and is_alive():
        try:
            return client.list_topics(timeout=min(TRY_S, max(0.05, deadline - time.monotonic())))
        except KafkaException as failure:
            client.poll(0.05)  # serves the callback
            if failure.args[0].code() not in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT):
                reported.setdefault(failure.args[0].str())
        if time.monotonic() > begun + REFUSED_S:
            _raise_refusal(reported, config)
    _raise_refusal(reported, config)
    reasons = "; ".join(plain(reported)) or "no connection was made"
    raise Unreachable(f"no Kafka answers at {config['bootstrap.servers']} within {timeout_s:g} s: {reasons}")


def reach(settings: Settings) -> None:
    """Check that the configured cluster answers; the embedded broker is not asked.

    A command checks before its clients connect: they would wait for long, and report less.

    Raises:
        NotLetIn: the password or a certificate is wrong.
        Unreachable: no broker answers.
    """
    if not is_foreign(settings):
        return
    try:
        probe(config_of(settings.kafka.bootstrap_servers, settings.kafka.properties), FOREIGN_LIMIT_S)
    except NotLetIn:
        raise
    except Unreachable as failure:
        raise Unreachable(f"{failure}; {CONFIGURE_HINT}") from None


def _raise_refusal(reported: Iterable[str], config: Mapping[str, str]) -> None:
    for reason in plain(reported):
        if do := remedy(reason, config):
            raise NotLetIn(f"the Kafka cluster at {config['bootstrap.servers']} does not let us in: {reason}; {do}")


def _client(config: Mapping[str, str], on_error: Callable[[KafkaError], object]) -> AdminClient:
    try:
        return AdminClient({**config, "error_cb": on_error})
    except (KafkaException, ValueError) as failure:
        detail = failure.args[0].str() if isinstance(failure, KafkaException) else failure
        raise PochadeError(f"librdkafka refuses the settings under [kafka.properties]: {detail}") from None
