"""Admission: every request is placed or turned away with a reason, and no tenant gets more than its quota."""

import itertools
from collections import defaultdict
from typing import NamedTuple
from unittest import mock

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agents.features.tenants import Tenants
from agents.router import dispatcher, role
from agents.router.role import Router
from planner.catalog.options import job_ms
from planner.control.shedding import shares_by_tier
from planner.serving.admission.quotas import Quota, take_tokens
from planner.serving.requests import OPEN_MS
from planner.serving.routing.routing import RoutingLogic, backlog_limits, is_admitted
from schemas.messages import TIERS, Admission, GenerateJob, GenerateOptions, Outcome, Route, Status
from schemas.record import Incoming
from schemas.topics import OUTCOMES
from streams.codec.avro import decode
from tests.agents.stubs import SILENT_MS, StubFleet, StubPlans, a_record
from tests.awaiting import awaited
from tests.builders import NOW_MS, a_catalog, a_classified, a_heartbeat, a_plan, a_request, owned
from tests.stateful.depth import depth

QUOTAS = {"small": Quota(rate_rps=2.0, burst=2.0), "heavy": Quota(rate_rps=10.0, burst=5.0, weight=3.0)}
LIMITS = backlog_limits(max_backlog_s=5.0, interactive_headroom=0.2)
CATALOG = a_catalog()


class Grant(NamedTuple):
    """Images that a tenant was let generate."""

    at_ms: int
    pictures: int


class Open(NamedTuple):
    """A request that has its job and no result."""

    tenant: str
    ms: float
    at_ms: int


class AdmissionMachine(RuleBasedStateMachine):
    """Records lie on `classified`; the router's quotas and shares die with it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms, self.numbers = NOW_MS, itertools.count()
        self.plans, self.ended = StubPlans(a_plan(cascades=())), set[str]()
        self.records: dict[str, Incoming] = {}
        self.admitted: dict[tuple[str, float], bool] = {}  # by the plan, under a share
        self.live()

    def live(self) -> None:
        self.fleet, self.tenants = StubFleet(), Tenants(QUOTAS)
        logic = RoutingLogic(CATALOG, LIMITS, self.tenants, self.ended)
        self.router = Router(logic, self.plans, dispatcher.Dispatcher(CATALOG, self.fleet, "router"))
        self.grants: defaultdict[str, list[Grant]] = defaultdict(list)
        self.open: dict[str, Open] = {}  # by request
        for worker, variant in (("w-1", "light"), ("w-2", "heavy")):
            self.a_worker_beats(worker, variant, 0)

    def decided(self, name: str) -> GenerateJob | Outcome | None:
        clock = lambda: self.now_ms  # noqa: E731
        assert self.plans.plan is not None
        self.admission = self.plans.plan.admission  # as it is for the tenant
        with (
            mock.patch.object(self.tenants, "admission_of", self.admission_by_the_tenants),
            mock.patch.object(role, "now_ms", clock),
            mock.patch.object(dispatcher, "now_ms", clock),
        ):
            written = awaited(self.router.on_record(self.records[name]))
        if name in self.ended or self.has_job(name):
            assert written == [], "decided on twice"
            return None
        (record,) = written  # each has one answer
        assert record.key == name.encode()
        return decode(record.value, Outcome if record.topic == OUTCOMES else GenerateJob)  # type: ignore[type-var]

    def admission_by_the_tenants(
        self, admission: Admission | None, tier: str, tenant: str, now_ms: float
    ) -> Admission | None:
        """What the router obeys: shed from those who ask for more than their part of what is admitted."""
        found = Tenants.admission_of(self.tenants, admission, tier, tenant, now_ms)
        if admission is None or tier not in admission.shares:
            assert found == admission
        elif admission.shares[tier] in (0.0, 1.0):
            assert found is not None
            assert found.shares == admission.shares
        self.admission = found
        return found

    def has_job(self, name: str) -> bool:
        return name in self.open and self.now_ms - self.open[name].at_ms < OPEN_MS

    # ------------------------------------------------------------------ steps

    @rule(
        tenant=st.sampled_from(["small", "small", "heavy", "free", ""]), tier=st.sampled_from(TIERS),
        pictures=st.sampled_from([1, 1, 3]), quality=st.sampled_from(["auto", "low", "high"]),
        in_ms=st.sampled_from([None, None, -5, 100, 60_000]),
    )  # fmt: skip
    def a_request_comes(self, tenant: str, tier: str, pictures: int, quality: str, in_ms: int | None) -> None:
        name = f"r-{next(self.numbers)}"
        request = a_request(
            request_id=name, tenant=tenant, tier=tier, quality=quality, options=GenerateOptions(n=pictures),
            deadline_ms=None if in_ms is None else self.now_ms + in_ms,
        )  # fmt: skip
        self.records[name] = a_record(a_classified(request), key=name.encode())
        self.is_answered(name)

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def a_record_comes_again(self, data: st.DataObject) -> None:
        self.is_answered(data.draw(st.sampled_from(sorted(self.records))))

    def is_answered(self, name: str) -> None:
        said, classified = self.decided(name), decode(self.records[name].value, type(a_classified()))
        if said is None:
            return
        request, admission = classified.request, self.admission
        share = admission.shares.get(request.tier, 1.0) if admission else 1.0
        is_shed = isinstance(said, Outcome) and said.code == "shed"
        assert is_shed != is_admitted(admission, name, request.tier)
        self.monotone(name, share, not is_shed)
        if isinstance(said, GenerateJob) or said.reason.startswith("tenant "):  # by its rights
            self.open.pop(name, None)  # its job is long lost
        if isinstance(said, GenerateJob):
            work_ms = job_ms(CATALOG.level(said.level), request.options)
            self.open[name] = Open(request.tenant, work_ms, self.now_ms)
            self.grants[request.tenant].append(Grant(self.now_ms, request.options.n))
            if request.deadline_ms is not None and said.worker_id:
                assert self.now_ms + work_ms <= request.deadline_ms, "generated in vain"
            return
        assert said.reason
        if said.status is Status.EXPIRED:
            assert request.deadline_ms is not None
        else:
            assert said.status is Status.REJECTED
            assert said.retry_after_ms is not None
            assert said.retry_after_ms > 0

    def monotone(self, name: str, share: float, is_in: bool) -> None:
        """A higher share lets the same requests in, and more."""
        self.admitted[name, share] = is_in
        for (other, below), was_in in self.admitted.items():
            if other == name and was_in:
                assert is_in or share < below

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def a_request_ends(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        self.ended.add(name)
        self.tenants.ended(name)
        del self.open[name]

    @precondition(lambda self: self.open)
    @rule(data=st.data(), after_ms=st.sampled_from([0, 0, OPEN_MS]))
    def a_client_asks_again_for_what_is_open(self, data: st.DataObject, after_ms: int) -> None:
        """Whatever else is refused by now, it is not rejected, and takes no tokens; much later it is admitted anew."""
        name = data.draw(st.sampled_from(sorted(self.open)))
        self.now_ms += after_ms
        buckets, has_job = dict(self.tenants._rights._buckets), self.has_job(name)
        self.is_answered(name)
        assert not has_job or self.tenants._rights._buckets == buckets

    @precondition(lambda self: self.records.keys() - self.open.keys() - self.ended)
    @rule(data=st.data())
    def a_request_is_cancelled_while_it_is_decided_on(self, data: st.DataObject) -> None:
        """Its result is read before it is open: it must not stay open for ever."""
        name = data.draw(st.sampled_from(sorted(self.records.keys() - self.open.keys() - self.ended)))
        wait_ms = self.fleet.wait_ms

        def ends_meanwhile(variant: str, at_ms: int, queued_ms: float, *, holds: bool) -> float:
            self.ended.add(name)
            self.tenants.ended(name)
            return wait_ms(variant, at_ms, queued_ms, holds=holds)

        with (
            mock.patch.object(self.fleet, "wait_ms", ends_meanwhile),
            mock.patch.object(role, "now_ms", return_value=self.now_ms),
        ):
            written = awaited(self.router.on_record(self.records[name]))
        assert all(record.topic == OUTCOMES for record in written), "nobody waits for it"
        self.grants.clear()  # it may have taken tokens, for nothing

    @rule(ms=st.sampled_from([1, 100, 500, SILENT_MS + 1, 60_000, OPEN_MS]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @rule(
        worker=st.sampled_from(["w-1", "w-2"]), variant=st.sampled_from(["light", "heavy"]),
        work_ms=st.sampled_from([0, 2_000, 4_500, 20_000]),
    )  # fmt: skip
    def a_worker_beats(self, worker: str, variant: str, work_ms: int) -> None:
        partitions = (owned(int(worker[2:]), 10**6, work_ms),)
        self.fleet.receive(a_heartbeat(worker_id=worker, variant=variant, partitions=partitions), self.now_ms)

    @rule(heavy=st.sampled_from([0.0, 0.5, 1.0]), admitted=st.sampled_from([None, 0.0, 0.3, 0.7, 0.99]))
    def the_plan_changes(self, heavy: float, admitted: float | None) -> None:
        shares = (
            None if admitted is None else shares_by_tier(admitted, {"interactive": 0.2, "standard": 0.5, "batch": 0.3})
        )
        admission = None if shares is None else Admission(shares=shares, reason="shed: too much", retry_after_ms=5000)
        self.plans.plan = a_plan(
            routes=(Route(levels={"light": 1 - heavy, "heavy": heavy}),), cascades=(), admission=admission
        )  # fmt: skip
        if shares is not None:
            for higher, lower in itertools.pairwise(TIERS):
                assert shares[lower] == 0 or shares[higher] == 1, "a lower tier is admitted where a higher one is shed"

    @rule()
    def the_router_is_killed(self) -> None:
        """What its tenants had taken and have open is not known any more (design: quotas live in the router)."""
        self.live()

    # ------------------------------------------------------------------ what is promised

    @invariant()
    def no_tenant_gets_more_than_its_quota_in_a_life(self) -> None:
        """From any grant to any later one: what came before the last, and what it needed, was in the bucket."""
        for tenant, quota in QUOTAS.items():
            grants = self.grants[tenant]
            for first in range(len(grants)):
                before = 0
                for grant in grants[first:]:
                    filled = quota.burst + quota.rate_rps * (grant.at_ms - grants[first].at_ms) / 1000
                    assert before + min(grant.pictures, quota.burst) <= filled + 1e-6
                    before += grant.pictures

    @invariant()
    def what_is_open_is_what_has_not_ended(self) -> None:
        rights = self.tenants._rights
        assert rights._works.keys() == self.open.keys()
        expected: defaultdict[str, float] = defaultdict(float)
        for tenant, ms, _ in self.open.values():
            expected[tenant] += ms
        assert rights._open.by_party() == pytest.approx(dict(expected))

    @invariant()
    def a_refusal_says_truly_when_there_will_be_tokens(self) -> None:
        for tenant, bucket in self.tenants._rights._buckets.items():
            for pictures in (1, 3):
                _, wait_ms = take_tokens(bucket, QUOTAS[tenant], pictures, self.now_ms)
                if wait_ms is not None:
                    assert wait_ms > 0
                    assert take_tokens(bucket, QUOTAS[tenant], pictures, self.now_ms + wait_ms + 1)[1] is None


TestAdmission = AdmissionMachine.TestCase
TestAdmission.settings = depth(60)
