from collections import Counter

import pytest

from replay.verify.chaos.faults import cluster as several
from replay.verify.chaos.faults.cluster import LOST
from replay.verify.chaos.kinds import (
    COMPONENT_KINDS,
    KINDS,
    PURGE,
    REUSE_KINDS,
    ROLES,
    SCALE_KINDS,
    TWINS,
    component_catalogue,
    fault_catalogue,
    kinds,
    reuse_catalogue,
    scale_catalogue,
)
from replay.verify.chaos.schedule import (
    CYCLE_MS,
    EXIT,
    FIRST,
    HANG,
    LAST,
    SLOW,
    TENANTS,
    Card,
    Fault,
    draw_faults,
    draw_requests,
    in_bursts,
    killers,
    ordinary,
    with_last,
)

WORKERS = ["worker-1", "worker-2", "worker-3"]
DECK = fault_catalogue(WORKERS, 3000, can_exit=True)
SPAN_MS = 100_000


def a_fault(kind: str, at_ms: float = 500) -> Fault:
    return Fault(number=0, at_ms=at_ms, kind=kind, target="", lasts_ms=0, dice=1)


def test_the_same_seed_draws_the_same_faults_and_another_seed_others() -> None:
    assert draw_faults(DECK, 20, SPAN_MS, 1) == draw_faults(DECK, 20, SPAN_MS, 1)
    assert draw_faults(DECK, 20, SPAN_MS, 1) != draw_faults(DECK, 20, SPAN_MS, 2)


def test_faults_come_in_order_within_the_run_and_last_as_long_as_their_card_says() -> None:
    faults = draw_faults(DECK, 60, SPAN_MS, 3)
    times = [fault.at_ms for fault in faults]
    assert times == sorted(times)
    assert times[0] >= FIRST * SPAN_MS - 1
    assert times[-1] <= LAST * SPAN_MS + 1
    frozen = [fault.lasts_ms for fault in faults if fault.kind == "freeze"]
    assert min(frozen) > 3000, "a zombie is away for longer than its session"


def test_as_many_faults_as_there_are_cards_are_every_card() -> None:
    drawn = Counter((fault.kind, fault.target) for fault in draw_faults(DECK, len(DECK), SPAN_MS, 4))
    assert drawn == Counter((card.kind, card.target) for card in DECK)
    twice = Counter((fault.kind, fault.target) for fault in draw_faults(DECK, 2 * len(DECK), SPAN_MS, 4))
    assert twice == drawn + drawn


def test_the_deck_kills_and_freezes_every_role_and_has_every_kind() -> None:
    for kind in ("kill", "freeze", "restart"):
        assert {card.target for card in DECK if card.kind == kind} == {*ROLES, *WORKERS}
    assert {card.kind for card in DECK} == set(KINDS) - {PURGE}


def test_an_engine_that_cannot_end_its_process_is_not_asked_to() -> None:
    assert not {"exit", "hang"} & {card.kind for card in fault_catalogue(WORKERS, 3000, can_exit=False)}


def test_requests_follow_from_the_seed_and_are_numbered() -> None:
    one, same = (draw_requests("run", 50, 10, 1, []) for _ in range(2))
    assert one == same
    assert [due.request_id for due in one[:2]] == ["run-1-0000", "run-1-0001"]
    assert [due.offset_ms for due in one[:3]] == [0, 100, 200]


def test_requests_are_of_several_kinds() -> None:
    rows = [due.row for due in draw_requests("run", 400, 10, 1, [])]
    assert {row.wish.tier for row in rows} == {"standard", "batch"}
    assert {row.wish.options.n for row in rows} == {1, 2}
    assert 10 < sum(row.slack_ms is not None for row in rows) < 100


def test_a_fault_that_is_a_request_is_the_first_one_at_its_time() -> None:
    drawn = draw_requests("run", 20, 10, 1, [a_fault("exit", 450), a_fault("slow", 1450)])
    assert (drawn[5].row.prompt or "").startswith(EXIT)
    assert drawn[15].row.wish == SLOW
    assert sum((due.row.prompt or "").startswith(EXIT) for due in drawn) == 1


def test_requests_that_end_their_process_are_known() -> None:
    drawn = draw_requests("run", 20, 10, 1, [a_fault("exit", 450), a_fault("hang", 850), a_fault("slow", 1450)])
    assert (drawn[9].row.prompt or "").startswith(HANG)
    assert killers(drawn) == {"run-1-0005", "run-1-0009"}


def test_a_fault_after_the_last_request_is_the_last_request() -> None:
    drawn = draw_requests("run", 3, 10, 1, [a_fault("exit", 10_000)])
    assert (drawn[-1].row.prompt or "").startswith(EXIT)


def test_a_card_without_a_duration_makes_a_fault_without_one() -> None:
    (fault,) = draw_faults([Card(kind="kill", target="ledger")], 1, SPAN_MS, 0)
    assert (fault.kind, fault.target, fault.lasts_ms) == ("kill", "ledger", 0)


def test_several_brokers_are_broken_one_by_one_and_every_process_has_its_faults() -> None:
    cards = fault_catalogue(WORKERS, 3000, can_exit=True, brokers=3)
    assert {card.kind for card in cards} == set(kinds(3)) - {LOST, PURGE}
    assert {card.target for card in cards if card.kind == "restart"} == {*TWINS, *WORKERS}
    assert sum(card.kind in several.KINDS for card in cards) > len(cards) / 5


def test_a_broker_is_lost_for_good_once_after_all_other_faults() -> None:
    others = draw_faults(fault_catalogue(WORKERS, 3000, can_exit=True, brokers=3), 11, SPAN_MS, 3, last=0.8)
    faults = with_last(others, LOST, SPAN_MS, 0.8, 3)
    assert [fault.kind for fault in faults].count(LOST) == 1
    assert faults[-1].kind == LOST
    assert max(fault.at_ms for fault in others) <= faults[-1].at_ms == 0.8 * SPAN_MS


def test_ordinary_requests_ask_for_nothing_special() -> None:
    requests = draw_requests("run", 200, 10, 1, [a_fault("exit"), a_fault("slow")])
    plain = ordinary(requests)
    assert 100 < len(plain) < 190
    assert not plain & killers(requests)
    assert all(due.row.slack_ms is None for due in requests if due.request_id in plain)


def test_requests_of_a_run_with_reuse_repeat_prompts_of_several_tenants_and_most_say_yes() -> None:
    due = draw_requests("run", 160, 4.0, 3, [], repeat=True)
    assert due == draw_requests("run", 160, 4.0, 3, [], repeat=True)
    prompts = Counter(each.row.prompt for each in due)
    assert len(prompts) == 6
    assert {each.row.wish.tenant for each in due} == set(TENANTS)
    consents = Counter(each.row.wish.options.reuse for each in due)
    assert set(consents) == {"own", "", "off"}
    assert consents["own"] > 100
    shared = {each.row.prompt for each in due if each.row.wish.tenant == "ann"}
    assert shared & {each.row.prompt for each in due if each.row.wish.tenant == "bob"}, "or nobody could be mixed up"
    plain = draw_requests("run", 160, 4.0, 3, [])
    assert ordinary(due) == ordinary(plain), "what a request says of reuse asks for nothing special"


def test_every_fault_of_reuse_comes_in_a_run_of_them_and_none_in_another() -> None:
    cards = reuse_catalogue(3000, 60_000)
    assert {card.kind for card in cards} == set(REUSE_KINDS) == set(kinds(1, with_reuse=True)) - set(kinds(1))
    assert max(card.lasts_ms[1] for card in cards if card.kind.startswith("vectors")) == 9000
    usual = fault_catalogue(["worker-1"], 3000, can_exit=True)
    assert not {card.kind for card in usual} & set(REUSE_KINDS)


def test_where_requests_name_components_every_fault_of_them_may_come() -> None:
    cards = component_catalogue(WORKERS, 60_000.0)
    assert {card.kind for card in cards} == set(COMPONENT_KINDS)
    assert set(COMPONENT_KINDS) <= set(kinds(1, with_components=True)) - set(kinds(1, with_reuse=True))
    away = [card.lasts_ms for card in cards if card.kind in ("remote-drops", "remote-away")]
    assert all(least < 6000 < most for least, most in away), "a fetch tries for about 6 s"


def test_where_workers_come_and_go_every_fault_of_that_may_come_and_none_of_a_fixed_worker() -> None:
    cards = [*fault_catalogue([], 3000, can_exit=True), *scale_catalogue(3000)]
    assert set(SCALE_KINDS) <= {card.kind for card in cards} <= set(kinds(1, is_scaled=True))
    assert {card.kind for card in cards if card.target == "scale"} == {"kill", "restart", "freeze"}
    assert not {card.target for card in cards if card.target.startswith("worker")}
    assert "last-worker" not in {card.kind for card in cards}


def test_bursts_are_three_times_as_fast_and_leave_a_pause_of_twice_their_length() -> None:
    steady = draw_requests("run", 480, 4, 1, [])
    burst = in_bursts(steady)
    assert [due.request_id for due in burst] == [due.request_id for due in steady]
    assert max(due.offset_ms % CYCLE_MS for due in burst) < CYCLE_MS / 3
    assert [due.offset_ms for due in burst[:3]] == [0, pytest.approx(1000 / 12), pytest.approx(2000 / 12)]
    assert sum(due.offset_ms < CYCLE_MS for due in burst) == 240
