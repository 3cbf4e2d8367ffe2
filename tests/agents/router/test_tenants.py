"""Tenants: what is open counts until its request has a result."""

from agents.router.tenants import Tenants
from planner.serving.quotas import Quota
from tests.builders import a_request


def test_a_crowded_share_is_refused_until_work_ends() -> None:
    tenants = Tenants({"a": Quota(weight=1)})
    for n in range(10):
        assert tenants.refuse(a_request(request_id=f"r-{n}", tenant="a"), 10, 100, 0) is None
    refused = tenants.refuse(a_request(request_id="r-10", tenant="a"), 10, 100, 0)
    assert refused is not None
    assert refused.code == "overloaded"
    tenants.ended("r-0")
    assert tenants.refuse(a_request(request_id="r-10", tenant="a"), 10, 100, 0) is None


def test_a_request_that_is_read_again_is_open_once() -> None:
    tenants = Tenants({})
    for _ in range(100):
        assert tenants.refuse(a_request(tenant="a"), 60, 100, 0) is None


def test_the_end_of_an_unknown_request_changes_nothing() -> None:
    tenants = Tenants({})
    tenants.ended("never seen")
    assert tenants.refuse(a_request(), 100, 100, 0) is None
