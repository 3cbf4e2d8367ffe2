"""What commands load that people wait for: a second of imports before a request is sent is a second too many."""

import pytest

from tests.behaviour.sections.imports import COMMANDS, reachable

HEAVY = {"numpy", "pulp", "highspy", "scipy", "torch", "matplotlib", "faust", "pymilvus", "grpc", "pandas"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_quick_command_can_reach_no_slow_library(command: str) -> None:
    assert not HEAVY & set(reachable(command)["packages of others"])
