"""Partitions change hands at heartbeats."""

from hypothesis import given
from hypothesis import strategies as st

from replay.simulation.event_queue import EventQueue
from replay.simulation.roles.workers.group import Group, Member
from replay.simulation.roles.workers.regrouping import Regrouping
from tests.replay.simulation.roles.workers.test_group import a_job, written

BEAT_MS = 2000.0


class Site:
    """A group whose members poll unless they are set to be busy."""

    def __init__(self, beat_ms: float = BEAT_MS, now_ms: float = 0.0, answer_ms: float = 0.0) -> None:
        self.events, self.group = EventQueue(now_ms), Group(4)
        self.busy: list[Member] = []
        self.changed: list[Member] = []
        self.regrouping = Regrouping(self.events, beat_ms, self.busy.__contains__, self.changed.extend, answer_ms)

    def join(self, name: str, at_ms: float) -> Member:
        self.events.advance(at_ms)
        member = Member(name)
        self.regrouping.joined(self.group, member)
        return member


def test_who_joins_an_empty_group_has_everything_with_the_answer() -> None:
    site = Site(answer_ms=170.0)
    member = site.join("a", 1000)
    site.events.advance(1169)
    assert not member.partitions
    site.events.advance(1170)
    assert member.partitions == [0, 1, 2, 3]


def test_who_joins_those_who_serve_has_its_share_when_the_owner_and_then_it_were_told() -> None:
    site = Site()
    first, second = site.join("a", 0), site.join("b", 500)
    written(site.group, 3)
    site.events.advance(1999)
    assert (len(first.partitions), second.partitions) == (4, [])
    site.events.advance(2000)
    assert (len(first.partitions), second.partitions) == (2, []), "given up, and nobody's yet"
    site.events.advance(2499)
    assert not second.waiting
    site.events.advance(2500)
    assert (second.partitions, len(second.waiting)) == ([2, 3], 1)
    assert site.changed == [first, first, second]


def test_an_owner_that_generates_gives_up_nothing_until_it_polls() -> None:
    site = Site()
    first, second = site.join("a", 0), site.join("b", 500)
    site.busy.append(first)
    site.events.advance(4000)
    assert first.has_learnt
    assert len(first.partitions) == 4
    site.busy.clear()
    assert site.regrouping.settle(site.group, first) == [first]
    site.events.advance(4500)
    assert len(second.partitions) == 2


def test_a_heartbeat_that_rounding_puts_a_little_early_is_followed_by_the_next_one() -> None:
    # found by a simulation that stood still at a worker's 245th heartbeat
    site, beats_ms = Site(), list[float]()

    def is_busy(member: Member) -> bool:
        beats_ms.append(site.events.now_ms)
        assert len(beats_ms) < 2000, f"time stands still at {beats_ms[-1]}"
        return member.worker_id == "a"

    site.regrouping = Regrouping(site.events, 333.0, is_busy, site.changed.extend)
    site.join("a", 0)
    site.join("b", 87128.56210826409)
    site.events.advance(170_000)
    assert len(beats_ms) == len(set(beats_ms))


def test_what_a_member_leaves_lies_there_until_the_next_heartbeat_of_the_others() -> None:
    site = Site()
    first, second = site.join("a", 0), site.join("b", 500)
    site.events.advance(3000)
    written(site.group, *first.partitions)
    site.regrouping.left(site.group, first, [])
    site.events.advance(4499)
    assert not second.waiting
    site.events.advance(4500)
    assert len(second.waiting) == 2


def test_a_run_begins_with_groups_that_have_settled_and_without_heartbeats_all_hear_at_once() -> None:
    for site, at_ms in ((Site(now_ms=-1000.0), -1000.0), (Site(beat_ms=0.0), 100.0)):
        first, second = site.join("a", at_ms), site.join("b", at_ms)
        assert (len(first.partitions), len(second.partitions)) == (2, 2)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4), st.integers(0, 5000)), max_size=20))
def test_whoever_comes_and_goes_no_partition_has_two_owners_and_all_have_one_in_the_end(
    steps: list[tuple[bool, int, int]],
) -> None:
    site, members = Site(), dict[int, Member]()
    for sent, (joins, who, later_ms) in enumerate(steps):
        site.group.append(sent % 4, a_job(sent))
        if joins and who not in members:
            members[who] = site.join(str(who), site.events.now_ms)
        elif not joins and who in members:
            site.regrouping.left(site.group, members.pop(who), [])
        site.events.advance(site.events.now_ms + later_ms)
        owned = [p for member in site.group.members for p in member.partitions]
        assert len(owned) == len(set(owned))
        assert site.group.waiting() == sent + 1
    site.events.advance(site.events.now_ms + 3 * BEAT_MS)
    assert sorted(p for member in members.values() for p in member.partitions) == (list(range(4)) if members else [])
    assert all(site.group.is_stable(member) for member in members.values())
