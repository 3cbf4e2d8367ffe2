"""Long tests use the jars, homes, brokers and the fork server of the integration tests."""

from tests.integration.conftest import (
    broker_address,
    broker_home,
    new_home,
    only_our_settings,
    producer,
    role_server,
    settings,
)

__all__ = ["broker_address", "broker_home", "new_home", "only_our_settings", "producer", "role_server", "settings"]
