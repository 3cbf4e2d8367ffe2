"""A cluster that lets us read and write and little else, as managed ones do: doctor names it, roles run or say why not.

The operator made the topics; this user may not make any, nor see or change how topics, groups or brokers are set up.
"""

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from agents.runtime.assembly import ledger_of
from agents.worker.jobs import JobSource
from schemas import topics
from schemas.errors import PochadeError
from schemas.record import Outgoing
from schemas.topics import jobs_topic
from streams.broker.node import HOST, free_ports
from streams.codec.avro import encode
from streams.kafka import clients
from streams.kafka.consumers import snapshot
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics, own_topics
from streams.operator.doctor import examine
from streams.operator.verdicts import Check, Verdict
from streams.settings import Settings, load
from tests.builders import an_outcome
from tests.integration.waiting import poll_until
from tests.nightly.kafkas import kafka
from tests.patience import PATIENCE_S

USER, PREFIX = "app", "managed"
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_app="not-so-secret";'
OPERATIONS = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE),
    ResourceType.GROUP: (AclOperation.READ,),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, Settings]]:
    """Settings of who may do everything, and of who may not; the topics are there but for one variant's."""
    folder, port = tmp_path_factory.mktemp("managed"), free_ports().registry
    more = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # whoever connects without a password: the operator here
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": LOGIN,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    }
    with kafka(folder, more=more, clients_port=port) as address:
        everything = load({"home": folder, "kafka": {"bootstrap_servers": address, "prefix": PREFIX}})
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": "not-so-secret",
        }
        own = {"bootstrap_servers": f"{HOST}:{port}", "prefix": PREFIX, "properties": properties}
        create_topics(everything, ["light"])
        allow(everything)
        limited = load({"home": folder, "kafka": own})
        poll_until(lambda: own_topics(limited) == own_topics(everything), "the brokers know what is allowed")
        yield everything, limited


def allow(settings: Settings) -> None:
    bindings = [
        AclBinding(
            kind, f"{PREFIX}.", ResourcePatternType.PREFIXED, f"User:{USER}", "*", operation, AclPermissionType.ALLOW
        )
        for kind, operations in OPERATIONS.items()
        for operation in operations
    ]
    client = AdminClient(clients.client_config(settings))
    for made in client.create_acls(bindings).values():
        made.result(PATIENCE_S)


@pytest.fixture
def limited(operator: tuple[Settings, Settings]) -> Settings:
    return operator[1]


def reported(settings: Settings) -> dict[str, Check]:
    return {check.name: check for check in examine(settings)}


def test_doctor_names_what_is_not_granted_and_looks_at_the_rest(limited: Settings) -> None:
    found = reported(limited)
    failed = {name for name, check in found.items() if check.verdict is Verdict.FAIL}
    assert failed == {"classifier", "classifier-batch", "router", "discriminator", "ledger", "workers", "plan"}, (
        "that no role serves; nothing else"
    )
    assert "DESCRIBE_CONFIGS" in found["configuration"].do
    assert "ALTER_CONFIGS" in found["consumer groups"].do
    assert found["consumer groups"].verdict is Verdict.WARN
    assert "PREFIX.doctor-*" in found["clocks"].do
    assert found["ledger"].found.startswith("no member serves")
    assert found["transactions"].verdict is Verdict.OK


def test_a_missing_topic_that_may_not_be_made_is_an_error_that_says_what_to_have_made(limited: Settings) -> None:
    with pytest.raises(PochadeError, match=r"refused to create topic managed\.jobs\.other.*Grant CREATE"):
        create_topics(limited, ["light", "other"])
    assert create_topics(limited, ["light"]) == []


def test_ledger_and_workers_run_there(limited: Settings, caplog: pytest.LogCaptureFixture) -> None:
    producer = KafkaRecordProducer(limited)
    outcome = an_outcome(request_id="r-1")
    send_all(producer, [Outgoing(topic=topics.OUTCOMES, key=b"r-1", value=encode(outcome))])
    stopping = threading.Event()
    ledger = threading.Thread(target=ledger_of(limited, producer).run, args=(stopping,))
    ledger.start()
    try:
        poll_until(lambda: [each.key for each in snapshot.past(limited, [topics.RESULTS])] == [b"r-1"], "the result")
    finally:
        stopping.set()
        ledger.join(PATIENCE_S)
    send_all(producer, [Outgoing(topic=jobs_topic("light", 1).name, key=b"r-2", value=b"job")])
    source = JobSource(limited, "light")
    (taken,) = poll_until(lambda: source.take(1, 0.1), "a job")
    source.begin([taken])
    source.commit([taken])
    source.close()
    producer.close()
    assert sum("miss a silent member" in record.message for record in caplog.records) == 1
    assert "session ended" not in caplog.text
