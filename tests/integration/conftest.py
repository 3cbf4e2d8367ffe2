"""A real Apache Kafka broker for the tests: one a session, started and ended here, on data of its own."""

import contextlib
import os
import pathlib
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient

from streams.broker import address, embedded, java, record
from streams.kafka import clients
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.topics import create_topics, own_topics
from streams.settings import Settings, load
from tests.integration.forked import ROLE_SERVER
from tests.paths import ROOT
from tests.patience import PATIENCE_S

PROJECT_KAFKA = ROOT / ".pochade" / "kafka"
FOLDER = pathlib.Path(__file__).parent
LIMIT_S = 600  # of a test; the first waits for the session's broker, for its fork server (120 s), and for its roles


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a test here last as long as its fixtures may wait one after the other, whose own limits say what is amiss."""
    for item in items:
        if item.path.is_relative_to(FOLDER) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="session", autouse=True)
def only_our_settings() -> Iterator[None]:
    """No POCHADE_* variable or pochade.toml of whoever runs the tests gets in."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in [name for name in os.environ if name.startswith("POCHADE_")]:
            patch.delenv(variable)
        yield


@pytest.fixture(scope="session", autouse=True)
def role_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What forks the roles of pipelines ends with the session."""
    ROLE_SERVER.begin(tmp_path_factory.mktemp("role-server"))
    yield
    ROLE_SERVER.close()


@pytest.fixture(scope="session")
def new_home(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], pathlib.Path]:
    """Makes empty homes that share the project's jars, so that only the first test run fetches them."""
    with contextlib.suppress(java.JavaMissing), record.locked(PROJECT_KAFKA):
        java.prepare(PROJECT_KAFKA, print)

    def make() -> pathlib.Path:
        home = tmp_path_factory.mktemp("home")
        jars = java.jars_folder(PROJECT_KAFKA)
        (home / "kafka").mkdir()
        (home / "kafka" / jars.name).symlink_to(jars)
        return home

    return make


@pytest.fixture(scope="session")
def broker_home(new_home: Callable[[], pathlib.Path]) -> Iterator[pathlib.Path]:
    """The home in which the session's broker runs."""
    home = new_home()
    settings = load({"home": home})
    try:
        embedded.ensure(settings)
        yield home
    finally:
        embedded.stop(settings)
        assert address.find(settings) is None, f"a broker still runs in {home}"


@pytest.fixture(scope="session", name="broker")
def broker_address(broker_home: pathlib.Path) -> address.Address:
    """The address of the session's broker."""
    found = address.find(load({"home": broker_home}))
    assert found is not None, "the session's broker died"
    return found


def delete_topics(own: Settings) -> None:
    """Leave nothing of a deployment on the broker."""
    if names := own_topics(own):
        client = AdminClient(clients.client_config(own))  # must live until the answers are here
        for deleted in client.delete_topics(names).values():
            deleted.result(PATIENCE_S)


@pytest.fixture
def settings(broker_home: pathlib.Path) -> Iterator[Settings]:
    """Settings on the session's broker with topics of their own; none exists yet, and none is left in the end."""
    own = load({"home": broker_home, "kafka": {"prefix": f"t-{uuid.uuid4().hex[:12]}"}})
    yield own
    delete_topics(own)


@pytest.fixture
def producer(settings: Settings) -> Iterator[KafkaRecordProducer]:
    """A producer of a deployment of the test's own, whose topics are there."""
    create_topics(settings)
    producer = KafkaRecordProducer(settings)
    yield producer
    producer.close()
