"""Simulated workers hold components in tiers, wait for those that they lack, and obey a plan's residency."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from planner.catalog.components import Component
from planner.catalog.model import Catalog
from planner.catalog.options import resolve_options
from planner.components.component import Tier
from planner.components.tiers import Budgets
from planner.control.planning import PlannerLogic
from replay.simulation.component_setup import ComponentSetup, budgets_of, needs_of, table_of
from replay.simulation.event_queue import EventQueue
from replay.simulation.overrides import requested_overrides
from replay.simulation.results.figures import figures_of
from replay.simulation.results.tables import describe_parts
from replay.simulation.roles.routing.load_view import SimulatedLoadView
from replay.simulation.roles.workers.components import Components
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.run import Ran, Simulation
from replay.simulation.setup import Setup, Timing
from replay.traces import Trace
from replay.traces.trace import Overrides
from schemas.messages import GenerateOptions, Plan, ResidencyPlan
from streams.cli import main
from tests.builders import a_catalog, a_variant
from tests.replay.simulation.runs import a_setup, asking, down, up

RUN_MS = 1000.0
LOAD_MS = {"remote": 4000.0, "volume": 2000.0, "host": 500.0, "device": 0.0}
ADAPTER_MS = {"remote": 400.0, "volume": 200.0, "host": 50.0, "device": 0.0}
ROOMY = Budgets(volume=10_000, host=10_000, device=1_100)  # one base and one adapter on the device


def catalog_of(run_ms: float = RUN_MS, bases: str = "abc") -> Catalog:
    """One level with bases of a letter and the adapters x, y."""
    names = {"base": tuple(bases), "adapter": ("x", "y")}
    components = tuple(
        Component(
            kind=kind,
            name=name,
            source="none",
            bytes=1000 if kind == "base" else 100,
            load_ms=LOAD_MS if kind == "base" else ADAPTER_MS,
        )
        for kind, several in names.items()
        for name in several
    )
    variant = a_variant(
        latency_ms={1: run_ms}, load_ms=0.0, bases=names["base"], adapters=names["adapter"], components=components
    )
    return a_catalog(variants={"light": variant}, discriminators={}, cascades=(), class_cuts={})


def requests(every_ms: float, *asked: str) -> Trace:
    """A request in turn for each base, or base+adapter."""
    wishes = []
    for each in asked:
        base, _, adapter = each.partition("+")
        wishes.append(Overrides(options=GenerateOptions(model=base, adapters=(adapter,) if adapter else ())))
    return asking(np.arange(len(asked)) * every_ms, wishes)


def setup_of(catalog: Catalog, workers: int = 1, **changes: Any) -> Setup:
    components = ComponentSetup(**({"budgets": ROOMY, "eviction": "lru"} | changes.pop("held", {})))
    values = {"policy": "clipper-light", "slo_ms": 60_000.0, "timing": Timing(loads=False), "components": components}
    return a_setup(catalog=catalog, workers=workers, **(values | changes))


def ran(trace: Trace, setup: Setup) -> Ran:
    return Simulation(setup, trace.arrival_ms, wishes=requested_overrides(trace, setup.catalog)).run()


def test_a_request_waits_for_what_its_worker_lacks_from_the_tier_where_that_lies() -> None:
    catalog = catalog_of()
    figures = figures_of(ran(requests(20_000, "a", "a+x", "b", "a+x"), setup_of(catalog)))
    waits_ms = 4000 + 400 + 4000 + (500 + 50)  # remote; its adapter; remote, in place of both; host
    assert figures["load_s"] == waits_ms / 1000
    assert figures["latency_s"]["mean"] == pytest.approx((4 * RUN_MS + waits_ms) / 4000, rel=0.02)
    assert figures["loads"] == 5
    assert figures["cold_starts"] == 2
    assert figures["hits_by_tier"] == {
        "remote": pytest.approx(3 / 6, abs=1e-6), "volume": 0, "host": pytest.approx(2 / 6, abs=1e-6),
        "device": pytest.approx(1 / 6, abs=1e-6),
    }  # fmt: skip
    assert figures["bytes_moved"] == {"volume": 2100, "host": 2100, "device": 3200, "ahead": 0}
    assert figures["utilization"] == pytest.approx(4 * RUN_MS / (60_000 + RUN_MS + 550), rel=0.05)


def test_components_that_load_at_once_take_as_long_as_the_slowest() -> None:
    trace = requests(20_000, "a+x", "b+x")
    one_by_one = figures_of(ran(trace, setup_of(catalog_of())))["load_s"]
    at_once = figures_of(ran(trace, setup_of(catalog_of(), held={"overlaps": True})))["load_s"]
    assert (one_by_one, at_once) == (4.4 + 4.0, 4.0 + 4.0)


def test_a_worker_that_loads_for_long_is_not_taken_for_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    states: set[str] = set()
    update = SimulatedLoadView.update_from_heartbeat

    def spy(self: SimulatedLoadView, worker_id: str, variant: str, state: str, *rest: Any) -> None:
        states.add(state)
        update(self, worker_id, variant, state, *rest)

    monkeypatch.setattr(SimulatedLoadView, "update_from_heartbeat", spy)
    figures = figures_of(ran(requests(100, "a", "b", "c", "a"), setup_of(catalog_of(run_ms=20.0))))
    assert figures["completed"] == 4
    assert "painting" in states
    assert "hanging" not in states


def job(base: str) -> Any:
    """A job of this base, as far as components go."""
    how = resolve_options(GenerateOptions(model=base), catalog_of().level("light"))
    return SimpleNamespace(variant="light", how=how, deaths=None)


def state(**workers: dict[str, str]) -> Any:
    """A plan in force with a residency."""
    residency = ResidencyPlan(workers={name.replace("_", "-"): listed for name, listed in workers.items()})
    return SimpleNamespace(plan=plan_with(residency))


def plan_with(residency: ResidencyPlan | None) -> Plan:
    return Plan(version=1, policy="test", strategy="models", created_ms=0, reason="", routes=(), residency=residency)


def idle_worker(plan_state: Any, budgets: Budgets = ROOMY) -> tuple[EventQueue, Components, Worker]:
    events = EventQueue()
    components = Components(events, plan_state, catalog_of(), ComponentSetup(budgets=budgets))
    heard: list[Worker] = []
    components.on_changed = heard.append
    worker = Worker("w-0", 0.0)
    worker.variant = "light"
    components.start(worker)
    return events, components, worker


def test_an_idle_worker_loads_what_the_plan_lists_for_it_and_a_request_finds_it_there() -> None:
    events, components, worker = idle_worker(state(w_0={"base:a": "device", "base:b": "host"}, w_1={"base:c": "host"}))
    components.tend(worker)
    events.advance(3999)
    assert worker.components is not None
    assert worker.components.tiers.tier_of("base:a") is Tier.REMOTE
    events.advance(4000 + 3500)
    assert worker.components.tiers.tier_of("base:a") is Tier.DEVICE
    assert worker.components.tiers.tier_of("base:b") is Tier.HOST
    assert worker.components.tiers.tier_of("base:c") is Tier.REMOTE
    assert components.begin_call(worker, [job("a")]) == 0.0
    assert components.begin_call(worker, [job("b")]) == 500.0
    found = components.metrics.as_table()
    assert (found["prefetches"], found["loads"], found["cold_starts"]) == (2, 1, 0)
    assert found["bytes_moved"] == {"volume": 2000, "host": 2000, "device": 2000, "ahead": 2000}


def test_a_request_for_what_is_being_loaded_waits_for_the_rest_of_that_load() -> None:
    events, components, worker = idle_worker(state(w_0={"base:a": "device"}))
    components.tend(worker)
    events.advance(3000)
    assert components.begin_call(worker, [job("a")]) == 1000.0
    events.advance(5000)
    moved = components.metrics.as_table()["bytes_moved"]
    assert moved == {"volume": 1000, "host": 1000, "device": 1000, "ahead": 0}


def test_what_the_plan_lists_stays_where_others_must_leave_for_a_newcomer() -> None:
    two = Budgets(volume=10_000, host=10_000, device=2_000)
    for plan_state, expected in ((state(w_0={"base:a": "device"}), "base:a"), (state(), "base:b")):
        _, components, worker = idle_worker(plan_state, two)
        for base in ("a", "b", "b", "b", "c"):
            components.begin_call(worker, [job(base)])
        assert worker.components is not None
        assert worker.components.tiers.resident(Tier.DEVICE) == {expected, "base:c"}


def test_a_process_that_comes_back_finds_its_volume_and_nothing_else() -> None:
    catalog = catalog_of()
    trace = requests(20_000, "a", "a", "a")
    figures = figures_of(ran(trace, setup_of(catalog, outages=(down(10, "w-0"), up(11, "w-0")))))
    assert figures["load_s"] == 4.0 + 2.0
    assert figures["hits_by_tier"]["volume"] == pytest.approx(1 / 3, abs=1e-6)


def test_the_planner_sees_what_workers_hold_in_their_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    decide = PlannerLogic.decide

    def spy(self: PlannerLogic, observation: Any, *rest: Any) -> Any:
        seen.append(observation)
        return decide(self, observation, *rest)

    monkeypatch.setattr(PlannerLogic, "decide", spy)
    ran(requests(20_000, "a", "b+x", "c"), setup_of(catalog_of()))
    report = seen[-1].components.workers["w-0"]
    assert report.held["device"] == ("base:c",)
    assert report.held["host"] == ("adapter:x", "base:a", "base:b", "base:c")
    assert report.budget_bytes == {"volume": 10_000, "host": 10_000, "device": 1_100}
    assert report.loads == 4
    assert report.hits == {"remote": 4}
    assert set(seen[-1].components.demand["light"].requests) >= {"base:b", "base:c", "adapter:x"}


def test_the_default_budgets_hold_a_quarter_of_what_is_in_use() -> None:
    catalog = catalog_of()
    needs = needs_of(requests(1.0, "a", "b+x", "b"), catalog)
    assert needs == {("base:a",), ("base:b", "adapter:x"), ("base:b",)}
    assert budgets_of(needs, catalog, workers=4) == Budgets(volume=1_100, host=1_100, device=1_100)
    assert budgets_of(needs, catalog, workers=1, share=10.0) == Budgets(volume=21_000, host=21_000, device=21_000)
    assert budgets_of(needs, catalog, workers=4, share=10.0) == Budgets(volume=21_000, host=10_500, device=5_250)
    assert len(table_of(catalog)) == 5


def test_without_components_a_report_has_no_word_of_them() -> None:
    trace = requests(20_000, "a", "b")
    figures = figures_of(ran(trace, setup_of(catalog_of(), components=None)))
    assert not {"loads", "bytes_moved", "hits_by_tier", "replicas", "cold_starts"} & figures.keys()
    assert figures["latency_s"]["mean"] == pytest.approx(RUN_MS / 1000, rel=0.02)


def simulated(tmp_path: Any, options: Sequence[str]) -> Any:
    lines = [f'{{"arrival_ms": {60_000 * n}, "model": "base-00{n % 2}", "adapters": ["lora-000"]}}' for n in range(6)]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(lines))
    given = ["simulate", str(trace), "--catalog", "genai2026", "--policy", "clipper-heavy", "--workers", "2", *options]
    return CliRunner().invoke(main, [*given, "--period", "60", "--no-hops"])


def test_the_command_tells_where_components_were_found_and_how_much_was_moved(tmp_path: Any) -> None:
    found = simulated(tmp_path, [])
    assert found.exit_code == 0, found.output
    assert "components found on device" in found.output
    assert "cold starts" in found.output


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (["--budgets", "9:9:9"], "--budgets must leave room on the device for base:base-00"),
        (["--budgets", "9:9"], "write GB of volume, host memory and device, such as 286:72:18"),
        (["--eviction", "fifo"], "unknown eviction 'fifo'"),
        (["--eviction", "joint=lru"], "unknown policy of --eviction 'joint'"),
    ],
)
def test_a_budget_or_an_eviction_that_is_none_says_what_to_give(
    tmp_path: Any, options: Sequence[str], reported: str
) -> None:
    found = simulated(tmp_path, options)
    assert found.exit_code != 0
    assert reported in found.output or reported in str(found.exception)


def test_of_many_tenants_those_with_the_most_requests_are_printed() -> None:
    row = {"violation_rate": 0.0, "latency_s": {"p95": 1.0}}
    parts = {f"t{n}": row | {"requests": n} for n in range(30)}
    described = describe_parts("joint", parts)
    assert described.startswith("joint: t29 29 requests")
    assert "t20 20 requests" in described
    assert "t19" not in described
    assert described.endswith("20 others, with fewer requests each")


def test_a_job_goes_where_heartbeats_say_that_its_components_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker w-1 loads base c as the plan lists it, without any job that could have told the router."""
    decide = PlannerLogic.decide

    def with_residency(self: PlannerLogic, *seen: Any) -> Any:
        decision = decide(self, *seen)
        residency = ResidencyPlan(workers={"w-1": {"base:c": "device"}})
        return replace(decision, plan=replace(decision.plan, residency=residency)) if decision.plan else decision

    monkeypatch.setattr(PlannerLogic, "decide", with_residency)
    waits = {}
    for dispatch in ("least-cost", "pull", "round-robin"):
        trace = requests(20_000, "a", "c", "c", "c", "c")
        waits[dispatch] = figures_of(ran(trace, setup_of(catalog_of(), workers=2, dispatch=dispatch)))["load_s"]
    assert waits["least-cost"] == waits["pull"] == 4.0  # a alone, wherever it goes: w-1 keeps c
    assert waits["round-robin"] >= 8.0


def skewed(count: int, bases: int) -> Trace:
    """Requests for bases by Zipf's law, 1.5 s apart on average, in a catalog's names."""
    dice = np.random.default_rng(5)
    shares = 1 / np.arange(1, bases + 1)
    drawn = dice.choice(bases, size=count, p=shares / shares.sum()).tolist()
    wishes = [Overrides(options=GenerateOptions(model="abcdefgh"[base])) for base in drawn]
    return asking(np.cumsum(dice.exponential(1500, count)), wishes)


def test_mlora_finds_more_on_the_device_and_moves_less_than_lru_round_robin() -> None:
    catalog = catalog_of(bases="abcdefgh")
    found = {
        policy: figures_of(
            ran(
                skewed(300, 8),
                setup_of(
                    catalog, workers=4, policy=policy, drops=False,
                    held={"eviction": "", "budgets": Budgets(volume=6000, host=4000, device=2100)},
                ),
            )
        )
        for policy in ("mlora", "lru-round-robin")
    }  # fmt: skip
    ours, theirs = found["mlora"], found["lru-round-robin"]
    assert ours["hits_by_tier"]["device"] > theirs["hits_by_tier"]["device"] + 0.1
    assert ours["bytes_moved"]["device"] < theirs["bytes_moved"]["device"]
    assert ours["loads"] < theirs["loads"]
    assert ours["latency_s"]["p99"] < theirs["latency_s"]["p99"]


def test_a_component_leaves_by_its_worth_only_where_the_plan_places_components() -> None:
    """Base a was used often and long ago, b once and lately: by worth b leaves, by age a."""
    left = {}
    for name, plan_state in (("placed", state(w_1={})), ("not placed", SimpleNamespace(plan=plan_with(None)))):
        events, components, worker = idle_worker(plan_state, Budgets(volume=10_000, host=10_000, device=2_000))
        for _ in range(5):
            components.begin_call(worker, [job("a")])
        events.advance(60_000)
        for base in ("b", "c"):
            components.begin_call(worker, [job(base)])
        assert worker.components is not None
        left[name] = {"base:a", "base:b"} - worker.components.tiers.resident(Tier.DEVICE)
    assert left == {"placed": {"base:b"}, "not placed": {"base:a"}}


def test_an_idle_worker_does_not_move_in_a_loop_what_finds_no_room() -> None:
    events, components, worker = idle_worker(state(w_0={"base:a": "device", "base:b": "device"}))
    components.tend(worker)
    events.advance(1_000_000)
    assert components.metrics.as_table()["prefetches"] == 2
    assert components.metrics.as_table()["bytes_moved"]["ahead"] == 2000


def test_a_request_that_would_wait_for_components_beyond_its_deadline_is_not_begun() -> None:
    figures = figures_of(ran(requests(20_000, "a", "a"), setup_of(catalog_of(), slo_ms=4500.0)))
    assert (figures["expired"], figures["late"], figures["loads"]) == (2, 0, 0)
    figures = figures_of(ran(requests(20_000, "a", "a"), setup_of(catalog_of(), slo_ms=5500.0)))
    assert (figures["completed"], figures["late"], figures["loads"]) == (2, 0, 1)


def test_a_new_replica_that_loads_a_base_with_its_companions_ahead_lets_no_request_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shape of MLoRA 6.1.2: a new instance is at parity sooner where what comes with a base is prefetched."""
    decide = PlannerLogic.decide
    trace = requests(5_000, "a", "a+x", "a", "a+y", "a", "a+x", "a+y", "a")
    waits = {}
    for name, listed in (("coupled", ("base:a", "adapter:x", "adapter:y")), ("base alone", ("base:a",)), ("naive", ())):
        residency = ResidencyPlan(workers={"w-1": dict.fromkeys(listed, "device")})

        def with_residency(self: PlannerLogic, *seen: Any, residency: ResidencyPlan = residency) -> Any:
            decision = decide(self, *seen)
            return replace(decision, plan=replace(decision.plan, residency=residency)) if decision.plan else decision

        monkeypatch.setattr(PlannerLogic, "decide", with_residency)
        setup = setup_of(
            catalog_of(), workers=2, dispatch="round-robin", outages=(down(-0.9, "w-1"), up(1, "w-1")),
            held={"budgets": Budgets(volume=10_000, host=10_000, device=1_200)},
        )  # fmt: skip
        waits[name] = figures_of(ran(trace, setup))["load_s"]
    of_the_other = waits["coupled"]
    assert waits["base alone"] == pytest.approx(of_the_other + 0.8)  # both adapters, from remote
    assert waits["naive"] == pytest.approx(of_the_other + 0.8 + 4.0)


def test_where_workers_are_seldom_busy_a_new_replica_is_of_use_by_what_it_loads_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MLoRA 6.1.2 below saturation: three requests at once each 5 s, of 1 s each, that one worker of two can serve.

    No queue is worth a load of 4 s, so that a new worker without its base is sent nothing, however long it is there.
    """
    decide = PlannerLogic.decide
    at_ms = np.concatenate([[0.0], np.repeat(10_000.0 + np.arange(12) * 5_000.0, 3)])
    trace = asking(at_ms, [Overrides(options=GenerateOptions(model="a"))] * len(at_ms))
    means, loads = {}, {}
    for name, listed in (("coupled", {"w-1": {"base:a": "device"}}), ("naive", {})):

        def with_residency(self: PlannerLogic, *seen: Any, workers: Any = listed) -> Any:
            decision, residency = decide(self, *seen), ResidencyPlan(workers=workers)
            return replace(decision, plan=replace(decision.plan, residency=residency)) if decision.plan else decision

        monkeypatch.setattr(PlannerLogic, "decide", with_residency)
        setup = setup_of(catalog_of(), workers=2, dispatch="least-cost", outages=(down(-0.9, "w-1"), up(1, "w-1")))
        run = ran(trace, setup)
        assert run.busy_ms < 0.35 * run.up_ms
        means[name], loads[name] = figures_of(run)["latency_s"]["mean"], figures_of(run)["loads"]
    assert loads == {"coupled": 1, "naive": 1}, "the first request of all loads its base"
    assert means["coupled"] < 0.8 * means["naive"]


def sessions(count: int, *, are_users_known: bool) -> Trace:
    """Users who ask for a rare base and a minute later for the same one, with four requests of others in between."""
    dice, asked = np.random.default_rng(3), []
    for user in range(count):
        at_ms, base = 80_000.0 * user, "cdefgh"[dice.integers(6)]
        asked += [(at_ms, base, f"u{user}"), (at_ms + 60_000, base, f"u{user}" if are_users_known else f"v{user}")]
        for other in range(1, 5):
            rare_or_not = "abcdefgh"[dice.choice(8, p=[0.3, 0.3] + [0.4 / 6] * 6)]
            asked.append((at_ms + 10_000 * other, rare_or_not, f"o{user}-{other}"))
    asked.sort()
    wishes = [Overrides(options=GenerateOptions(model=base), tenant=user) for _, base, user in asked]
    return asking(np.array([at_ms for at_ms, _, _ in asked]), wishes)


def test_a_follow_up_of_a_user_finds_more_nearby_where_users_are_told_apart() -> None:
    """MLoRA 6.3.1: lifetimes of components are extended, as users iterate variants within short windows."""
    found = {}
    for are_users_known in (True, False):
        setup = setup_of(
            catalog_of(bases="abcdefgh"), policy="mlora", drops=False, period_ms=10_000.0,
            held={"eviction": "", "budgets": Budgets(volume=9000, host=2100, device=2100)},
        )  # fmt: skip
        found[are_users_known] = figures_of(ran(sessions(45, are_users_known=are_users_known), setup))
    near = {known: row["hits_by_tier"]["host"] + row["hits_by_tier"]["device"] for known, row in found.items()}
    assert near[True] > near[False]
    assert found[True]["load_s"] < found[False]["load_s"]


def test_updates_tell_kinds_and_calls_with_more_components_wait_longer() -> None:
    run = ran(requests(20_000, "a", "b", "a", "a+x", "b+y"), setup_of(catalog_of()))
    updates = run.components["updates"]
    assert isinstance(updates, dict)
    assert updates["count"] == {"adapter": 2, "base": 4, "pipeline": 5}
    assert updates["from"] == {"adapter.remote": 2, "base.host": 2, "base.remote": 2}
    assert updates["mean_s"]["base"] == pytest.approx((4 + 4 + 0.5 + 0.5) / 4)
    assert updates["cv"]["base"] == pytest.approx(7 / 9, abs=1e-3)  # two humps: 4 s and .5 s
    assert updates["mean_s"]["adapter"] == pytest.approx(0.4)
    assert updates["wait_s_by_parts"]["1"] == pytest.approx((4 + 4 + 0.5) / 3, abs=1e-3)
    assert updates["wait_s_by_parts"]["2"] == pytest.approx((0.4 + 0.9) / 2, abs=1e-3)
    assert updates["newcomers"] == {"calls": 0, "wait_s": 0}


def test_only_the_first_calls_of_a_worker_that_came_during_the_run_count_as_a_newcomers() -> None:
    setup = setup_of(catalog_of(), outages=(down(15, "w-0"), up(30, "w-0")))
    run = ran(requests(10_000, *("a" * 20)), setup)
    updates = run.components["updates"]
    assert isinstance(updates, dict)
    assert updates["newcomers"]["calls"] == 10
    assert updates["newcomers"]["wait_s"] == pytest.approx(LOAD_MS["volume"] / 1000 / 10)  # the volume outlived it
