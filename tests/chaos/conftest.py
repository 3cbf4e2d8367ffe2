"""Chaos runs in homes of their own, with the jars and the settings of the integration tests."""

from tests.integration.conftest import new_home, only_our_settings

__all__ = ["new_home", "only_our_settings"]
