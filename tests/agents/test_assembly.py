"""What a process of some roles loads."""

import pytest

from agents import catalogs
from agents.assembly import needs_torch


@pytest.mark.parametrize(
    ("roles", "catalog", "needed"),
    [
        ({"classifier", "router"}, "tiny", True),  # its classifier is learned
        ({"classifier", "router"}, "profile", False),  # the rules need none
        ({"router", "ledger"}, "tiny", False),
        ({"worker"}, "profile", True),
    ],
)
def test_torch_is_kept_out_only_where_no_role_loads_a_model(roles: set[str], catalog: str, *, needed: bool) -> None:
    assert needs_torch(frozenset(roles), catalogs.load(catalog)) is needed
