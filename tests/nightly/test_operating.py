"""Every command block of the operator's pages, run as it stands on the README's deployment by hand."""

import pathlib
from collections.abc import Callable

import pytest

from tests.integration.pages import OPERATORS, STARTED, STOPPED, blocks, run_by_hand


@pytest.mark.timeout(600)
def test_the_operators_commands_work_block_by_block(new_home: Callable[[], pathlib.Path]) -> None:
    told, place = run_by_hand(new_home(), [*STARTED, *(block for page in OPERATORS for block in blocks(page)), STOPPED])
    assert "clipper-heavy" in told
    assert (place / ".pochade" / "cat.png").read_bytes()[:4] == b"\x89PNG"
