"""What `pochade plan` shows an operator of plans and orders, on a control topic in memory."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from agents.commands.plan import plan
from schemas.errors import InvalidPlan, PochadeError
from schemas.messages import OperatorAction, Pin, Plan
from schemas.topics import ACTIONS
from streams.codec import schema_topic
from streams.codec.avro import decode
from streams.commands import opening
from streams.control import history as plan_reading
from streams.control import topic as control
from streams.control.history import Published
from streams.kafka import topics as kafka_topics
from streams.settings import load
from tests.builders import a_cascade, a_plan, a_reuse_plan
from tests.memory_kafka import MemoryRecordProducer

PLAN_1, PLAN_4 = a_plan(version=1, policy="hadis"), a_plan(version=4, policy="diffserve", cascades=())
PIN = Pin(policy="argus", parameters={"hold": 0.2}, by="ann", created_ms=1)

ANSWER = "plan 5 by it is in force"

Said = Callable[..., str]


@pytest.fixture
def topic() -> Published:
    return Published([PLAN_1, PLAN_4], None)


@pytest.fixture
def orders(topic: Published, monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """(policy, parameters, plan version) of the orders given."""
    given: list[tuple[object, ...]] = []
    monkeypatch.setattr(plan_reading, "published", lambda _settings, *_versions: topic)
    monkeypatch.setattr(
        control,
        "order",
        lambda _settings, policy="", parameters=None, plan_version=0: given.append(
            (policy, parameters or {}, plan_version)
        ),
    )
    monkeypatch.setattr(control, "await_answer", lambda *_: ANSWER)
    return given


@pytest.fixture(autouse=True)
def actions(monkeypatch: pytest.MonkeyPatch) -> MemoryRecordProducer:
    """The producer of the commands' records on `actions`."""
    producer = MemoryRecordProducer()
    monkeypatch.setattr(opening, "producer", lambda _settings: contextlib.nullcontext(producer))
    monkeypatch.setattr(kafka_topics, "own_topics", lambda _settings: ["pochade.actions.v1"])
    monkeypatch.setattr(schema_topic, "announce", lambda *_: None)
    return producer


def recorded(actions: MemoryRecordProducer) -> list[tuple[str, str, str]]:
    """(action, subject, outcome) of the records on `actions`."""
    records = [decode(record.value, OperatorAction) for record in actions.topics.get(ACTIONS, [])]
    return [(each.action, each.subject, each.outcome) for each in records]


@pytest.fixture
def said(orders: list[tuple[object, ...]]) -> Said:  # noqa: ARG001  so that none is written to a broker
    def run(*arguments: str) -> str:
        done = CliRunner(env={"COLUMNS": "200"}).invoke(plan, arguments, obj=load, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    return run


def test_the_plan_before_is_the_one_that_the_topic_holds_whatever_its_number(
    said: Said, orders: list[tuple[object, ...]]
) -> None:
    assert "from plan 4 by diffserve to plan 1 by hadis" in said("rollback")
    assert orders == [("", {}, 1)]
    assert "plan 1" in said("diff").splitlines()[0]


def test_orders_are_recorded_before_they_are_given_and_with_how_they_ended(
    said: Said, orders: list[tuple[object, ...]], actions: MemoryRecordProducer
) -> None:
    said("pin", "random-split", "--parameter", "heavy_share=0.3")
    said("rollback", "1")
    assert orders == [("random-split", {"heavy_share": 0.3}, 0), ("", {}, 1)]
    pinned = [("pin", "random-split", ""), ("pin", "random-split", ANSWER)]
    assert recorded(actions) == [*pinned, ("rollback", "1", ""), ("rollback", "1", ANSWER)]


def test_a_pin_that_no_plan_answers_is_an_error_and_recorded_as_such(
    said: Said, actions: MemoryRecordProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_about: object) -> str:
        raise PochadeError("no plan has answered the order within 20 s")

    monkeypatch.setattr(control, "await_answer", never)
    with pytest.raises(PochadeError, match="no plan has answered"):
        said("pin", "random-split")
    assert recorded(actions)[-1][2].startswith("failed: no plan has answered")


def test_an_order_that_the_broker_does_not_take_is_recorded_as_failed(
    actions: MemoryRecordProducer, monkeypatch: pytest.MonkeyPatch, orders: list[tuple[object, ...]]
) -> None:
    def refuses(*_about: object) -> None:
        raise PochadeError("the broker is away")

    monkeypatch.setattr(control, "order", refuses)
    done = CliRunner().invoke(plan, ["pin", "random-split"], obj=load)
    assert isinstance(done.exception, PochadeError)
    assert orders == []
    assert recorded(actions)[-1] == ("pin", "random-split", "failed: the broker is away")


def a_history(*policies: str) -> list[Plan]:
    return [a_plan(version=at, policy=policy, cascades=()) for at, policy in enumerate(policies, 1)]


PINNED = Pin(policy="clipper-heavy", by="ann", created_ms=1)


@pytest.mark.parametrize(
    ("topic", "to"),
    [
        (Published(a_history("joint", "joint", "clipper-heavy", "clipper-heavy"), PINNED, 2), "2 by joint"),
        (Published(a_history("clipper-heavy", "clipper-heavy", "clipper-heavy"), PINNED, 1), "1 by clipper-heavy"),
        (Published(a_history("joint", "clipper-heavy", "joint", "joint"), None), "2 by clipper-heavy"),
        (Published(a_history("joint", "joint"), None), "1 by joint"),
        (Published(a_history("joint", "joint"), PINNED, 2), "2 by joint"),  # the order is not in force yet
    ],
)
def test_a_rollback_undoes_the_pin_and_not_the_last_plan_by_the_pinned_policy(
    topic: Published, said: Said, orders: list[tuple[object, ...]], to: str
) -> None:
    now = topic.plans[-1]
    assert said("rollback").startswith(f"from plan {now.version} by {now.policy} to plan {to} until")
    assert orders == [("", {}, int(to.split()[0]))]


@pytest.mark.parametrize("topic", [Published([PLAN_4], None)])
@pytest.mark.parametrize("verb", ["rollback", "diff"])
def test_before_the_first_plan_there_is_none(said: Said, orders: list[tuple[object, ...]], verb: str) -> None:
    with pytest.raises(PochadeError, match="plan 4 is the first that the topic holds"):
        said(verb)
    assert orders == []


@pytest.mark.parametrize("topic", [Published([], None)])
@pytest.mark.parametrize("verb", ["rollback", "diff", "show"])
def test_without_any_plan_the_planner_is_asked_for(said: Said, verb: str) -> None:
    with pytest.raises(PochadeError, match="no plan has been published: is a planner running"):
        said(verb)


def test_nothing_is_ordered_where_nothing_is_pinned(said: Said, orders: list[tuple[object, ...]]) -> None:
    assert said("unpin") == "nothing is pinned: the configured policy plans\n"
    assert orders == []


@pytest.mark.parametrize(
    ("topic", "was"),
    [(Published([PLAN_4], PIN), "argus"), (Published([PLAN_4], replace(PIN, policy="", plan_version=1)), "plan 1")],
)
def test_what_is_unpinned_is_named(
    said: Said, orders: list[tuple[object, ...]], was: str, actions: MemoryRecordProducer
) -> None:
    assert said("unpin") == f"unpinned {was}, the configured policy plans again: {ANSWER}\n"
    assert recorded(actions) == [("unpin", was, ""), ("unpin", was, ANSWER)]
    assert orders == [("", {}, 0)]


@pytest.mark.parametrize(
    ("topic", "reported"),
    [
        (Published([PLAN_4], None), "policy\tdiffserve\n"),
        (Published([a_plan(policy="argus")], PIN), "argus (pinned by ann, hold 0.2)"),
        (Published([PLAN_4], PIN), "diffserve (argus is pinned by ann, hold 0.2, and not in force yet: does a planner"),
        (Published([PLAN_4], replace(PIN, policy="", plan_version=1)), "diffserve (back to plan 1, by ann)"),
    ],
)
def test_the_plan_in_force_is_shown_with_the_order_that_holds(said: Said, reported: str) -> None:
    assert reported in said("show")


def test_cascades_are_reported_the_same_way_wherever_they_are(said: Said) -> None:
    reported = f"{a_cascade().level} -> heavy if the confidence by look is below 0.500"
    assert reported in said("diff")
    solved = said("solve", "--policy", "diffserve-static", "--demand", "1", "--workers", "2", "--catalog", "profile")
    assert "light -> heavy if the confidence by look is below 0.300" in solved


def test_a_pin_to_what_the_simulator_alone_can_do_is_refused(
    orders: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `nirvana` with MoDM's floors, which compare prompts with stored images."""
    group = a_reuse_plan(key="text-image")
    monkeypatch.setattr("planner.policies.named", lambda _name: lambda *_about: SimpleNamespace(reuse=group))
    done = CliRunner().invoke(plan, ["pin", "nirvana", "--parameter", "floors=2"], obj=load)
    assert isinstance(done.exception, InvalidPlan)
    assert "no worker has the encoder 'text-image'" in str(done.exception)
    assert orders == []
