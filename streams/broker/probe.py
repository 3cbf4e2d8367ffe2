"""Whether a Kafka cluster answers, and if not, why: librdkafka tells wrong passwords only to a callback."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from schemas.errors import PochadeError
from streams.security.refusals import plain, remedy
from streams.security.secrets import with_secrets

TRY_S = 0.5
ANSWER_MS = 10_000  # of a request to one broker: then its connection is given up, and asked anew
REFUSED_S = 2.0  # another broker of the list may let us in, or a restarted one does not know its users yet


class Unreachable(PochadeError):
    """Nobody answers at the address, or does not let us in."""


class NotLetIn(Unreachable):
    """The cluster is there: the password or a certificate is wrong, and the message says which, and what to do."""


def client_config(bootstrap: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Configuration that any librdkafka client of ours begins with; `properties` win, secrets read from their files.

    Reconnects come quickly, because the default of 10 s would outlast a broker's restart. A broker that does not answer
    for ANSWER_MS is left, because the default of 60 s would outlast the move of its partitions: an idempotent producer
    sends nothing to a partition's new leader until the old one has answered, and uses a whole core meanwhile
    (librdkafka's issues 2565 and 3692). librdkafka prints only what is critical: connection errors reach `error_cb`,
    which every long-lived client must set.
    """
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": "50",
        "reconnect.backoff.max.ms": "1000",
        "socket.timeout.ms": str(ANSWER_MS),
        "log_level": "2",
        "log.connection.close": "false",
        **with_secrets(properties),
    }


def starting_config(bootstrap: str) -> dict[str, str]:
    """For watching a broker of this machine start: tries to connect every few milliseconds."""
    return client_config(bootstrap, {"reconnect.backoff.ms": "10", "reconnect.backoff.max.ms": "20"})


def probe(config: Mapping[str, str], timeout_s: float, is_alive: Callable[[], bool] = lambda: True) -> Any:
    """The cluster's metadata (`AdminClient.list_topics`), as soon as it answers.

    Raises:
        NotLetIn: a broker refuses the password or certificate, or shows none that is trusted; told after REFUSED_S.
        Unreachable: no answer within `timeout_s`, or `is_alive` said that waiting is in vain. The message carries what
            librdkafka reported meanwhile.
    """
    told: dict[str, None] = {}  # in order, once each
    client = _client(config, lambda error: told.setdefault(error.str()))
    begun = time.monotonic()
    deadline = begun + timeout_s
    while time.monotonic() < deadline and is_alive():
        try:
            return client.list_topics(timeout=min(TRY_S, max(0.05, deadline - time.monotonic())))
        except KafkaException as failure:
            client.poll(0.05)  # serves the callback
            if failure.args[0].code() not in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT):
                told.setdefault(failure.args[0].str())
        if time.monotonic() > begun + REFUSED_S:
            _raise_refusal(told, config)
    _raise_refusal(told, config)
    reasons = "; ".join(plain(told)) or "no connection was made"
    raise Unreachable(f"no Kafka answers at {config['bootstrap.servers']} within {timeout_s:g} s: {reasons}")


def _raise_refusal(told: Iterable[str], config: Mapping[str, str]) -> None:
    for reason in plain(told):
        if do := remedy(reason, config):
            raise NotLetIn(f"the Kafka cluster at {config['bootstrap.servers']} does not let us in: {reason}; {do}")


def _client(config: Mapping[str, str], on_error: Callable[[KafkaError], object]) -> AdminClient:
    try:
        return AdminClient({**config, "error_cb": on_error})
    except (KafkaException, ValueError) as failure:
        detail = failure.args[0].str() if isinstance(failure, KafkaException) else failure
        raise PochadeError(f"librdkafka refuses the settings under [kafka.properties]: {detail}") from None
