"""Partitions of a job topic and their owners."""

from hypothesis import given
from hypothesis import strategies as st

from replay.simulation.draws.synthetic import SyntheticOutcomes
from replay.simulation.job import Job
from replay.simulation.roles.workers.group import Group, Member
from tests.builders import a_catalog

DRAWS = SyntheticOutcomes(a_catalog(), 0)(0, 1)


def a_job(number: int) -> Job:
    job = Job(number, f"r-{number}", 0.0, None, DRAWS, 0)
    job.order = number
    return job


def written(group: Group, *partitions: int) -> None:
    for number, partition in enumerate(partitions):
        group.append(partition, a_job(number))


def joined(group: Group, *members: Member) -> None:
    for member in members:
        group.join(member)
        group.settle(group.members)


def left(group: Group, member: Member, in_hand: list[Job]) -> None:
    group.leave(member, in_hand)
    group.settle(group.members)


def test_a_lone_member_owns_everything_and_the_next_takes_its_half_with_the_jobs() -> None:
    group, first, second = Group(4), Member("a"), Member("b")
    joined(group, first)
    written(group, 0, 1, 2, 3, 3)
    joined(group, second)
    assert sorted(first.partitions) == [0, 1]
    assert sorted(second.partitions) == [2, 3]
    assert [job.number for job in second.waiting] == [2, 3, 4]


def test_who_leaves_hands_over_what_it_had_in_hand_first() -> None:
    group, first, second = Group(2), Member("a"), Member("b")
    joined(group, first, second)
    written(group, *first.partitions, *second.partitions, *first.partitions)
    in_hand = [first.waiting.popleft()]
    left(group, first, in_hand)
    assert [job.number for job in second.waiting] == [0, 1, 2]


def test_jobs_without_an_owner_wait_for_one() -> None:
    group, member = Group(3), Member("a")
    written(group, 2, 0)
    assert group.waiting() == 2
    joined(group, member)
    assert [job.number for job in member.waiting] == [0, 1]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30), st.integers(1, 9))
def test_whoever_comes_and_goes_every_partition_has_one_owner_and_no_job_is_lost(
    steps: list[tuple[bool, int]], partitions: int
) -> None:
    group, members = Group(partitions), dict[int, Member]()
    for sent, (joins, who) in enumerate(steps):
        group.append(sent % partitions, a_job(sent))
        if joins and who not in members:
            members[who] = Member(str(who))
            joined(group, members[who])
        elif not joins and who in members:
            left(group, members.pop(who), [])
        owned = sorted(p for member in group.members for p in member.partitions)
        assert owned == (list(range(partitions)) if members else [])
        counts = [len(member.partitions) for member in group.members]
        assert not counts or max(counts) - min(counts) <= 1
        assert group.waiting() == sent + 1
        for member in group.members:
            assert all(job.partition in member.partitions for job in member.waiting)
            assert [job.order for job in member.waiting] == sorted(job.order for job in member.waiting)
