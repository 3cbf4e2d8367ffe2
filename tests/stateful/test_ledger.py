"""The ledger: one result per request, none lost, however its input is cut, repeated, and its owner killed or fenced."""

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable

from confluent_kafka import KafkaException
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agents.ledger.broker_clock import BrokerClock, ClockOff
from agents.ledger.open_requests import OpenRequests
from agents.ledger.partition import OVERLAP, LedgerPartition, MarkerLost
from agents.ledger.remembered import CHUNK_REST
from agents.ledger.topics import LedgerTopics
from planner.serving.ending.ledger import MOVED
from schemas import topics
from schemas.errors import InvalidRecord
from schemas.ids import DIGEST_BYTES, digest_of
from schemas.messages import ClassifiedRequest, Outcome, Result, Status
from schemas.record import Incoming
from streams.codec.avro import decode, encode
from streams.codec.headers import DEADLINE, ERROR
from streams.kafka.producers import partitioner
from streams.kafka.producers.topic_limits import FRAME_BYTES, TopicLimits
from streams.settings import Settings, load
from tests.builders import NOW_MS, a_classified, a_request, an_outcome
from tests.stateful.broker import Broker, Crash, Group, Place, Transactions, Written, connected, sender
from tests.stateful.depth import depth

PARTITIONS = 2
GRACE_MS = 2000
AHEAD_MS = 3 * topics.DAY_MS
SETTINGS: Settings = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
OUTCOMES, RESULTS, CLASSIFIED, DLQ, ENDED = (f"pochade.{name}" for name in (
    topics.OUTCOMES, topics.RESULTS, topics.CLASSIFIED, topics.DLQ, topics.ENDED
))  # fmt: skip
SMALL_CHUNKS = CHUNK_REST + 3 * DIGEST_BYTES  # of three ids
KNOWN = LedgerTopics(partitions=PARTITIONS, limits=TopicLimits({topics.ENDED: SMALL_CHUNKS + FRAME_BYTES}))
NAMES = st.integers(0, 7)
STATUSES = st.sampled_from([Status.COMPLETED, Status.FAILED, Status.CANCELLED])
GARBAGE = st.sampled_from([None, b"", b"\0", b"{}", encode(a_request())])
LONG_PROMPT = "x" * 8000
TAKES = 6000  # bytes of a result, for a while


def partition_of(number: int) -> int:
    return partitioner.partition_of(f"r-{number}".encode(), PARTITIONS)


class LedgerMachine(RuleBasedStateMachine):
    """Topics and commits in `broker`; the rest is what one ledger process knows, and dies with it."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker(now_ms=NOW_MS)
        self.off_ms = 0  # of the ledger's own clock
        self.crashes = 0  # between a transaction and the group's commit
        self.is_over = False
        self.lanes: dict[int, LedgerPartition] = {}
        self.live()

    def live(self) -> None:
        """A new process: it fences the former one, learns what has ended, and begins at the last commit."""
        self.lanes = {}
        with connected(self.broker), contextlib.suppress(ClockOff):
            self.lanes = {partition: self.lane(partition) for partition in range(PARTITIONS)}
        self.begin = {p: self.broker.committed.get((OUTCOMES, p), 0) for p in range(PARTITIONS)}
        self.read = {p: max(0, begin - OVERLAP) for p, begin in self.begin.items()}
        self.open, self.followed = dict[int, OpenRequests](), dict[int, int]()
        for partition, lane in self.lanes.items():
            self.follow(partition, lane)

    def lane(self, partition: int) -> LedgerPartition:
        clock = BrokerClock(lambda: self.broker.now_ms + self.off_ms, lambda: self.broker.now_ms)
        return LedgerPartition(SETTINGS, partition, KNOWN, clock, sender(self.broker))

    def follow(self, partition: int, lane: LedgerPartition) -> None:
        """As `Expiry.follow`."""
        self.open[partition] = requests = OpenRequests(AHEAD_MS)
        lane.remembered.checkpoint = requests.checkpoint
        self.followed[partition] = max(0, self.broker.at((CLASSIFIED, partition), lane.ended.since_ms()))
        if lane.remembered.resume is not None:
            requests.resume(lane.remembered.resume, lane.ended.known)
            self.followed[partition] = lane.remembered.resume.offset

    # ------------------------------------------------------------------ what others do

    @rule(number=NAMES, status=STATUSES)
    def a_role_says_how_a_request_ended(self, number: int, status: Status) -> None:
        outcome = an_outcome(request_id=f"r-{number}", status=status)
        self.broker.append((OUTCOMES, partition_of(number)), f"r-{number}".encode(), encode(outcome), {})

    @rule(number=NAMES, value=GARBAGE)
    def a_record_is_no_outcome(self, number: int, value: bytes | None) -> None:
        self.broker.append((OUTCOMES, partition_of(number)), f"r-{number}".encode(), value, {})

    @rule(number=NAMES)
    def an_outcome_lies_under_a_foreign_key(self, number: int) -> None:
        outcome = an_outcome(request_id=f"r-{number}", status=Status.FAILED)
        self.broker.append((OUTCOMES, partition_of(number + 1)), b"another", encode(outcome), {})

    @rule(number=NAMES, moved=st.booleans())
    def an_outcome_lies_in_a_foreign_partition(self, number: int, moved: bool) -> None:
        """Its client hashes keys otherwise; `moved`: a ledger that knew another number of partitions put it here."""
        outcome, headers = an_outcome(request_id=f"r-{number}"), {MOVED: b"7"} if moved else {}
        self.broker.append((OUTCOMES, 1 - partition_of(number)), f"r-{number}".encode(), encode(outcome), headers)

    @rule(number=NAMES)
    def an_outcome_is_longer_than_results_take(self, number: int) -> None:
        outcome = an_outcome(request_id=f"r-{number}", request=a_request(request_id=f"r-{number}", prompt=LONG_PROMPT))
        self.broker.append((OUTCOMES, partition_of(number)), f"r-{number}".encode(), encode(outcome), {})

    @rule(most=st.sampled_from([TAKES, 10**6]))
    def an_operator_sets_what_results_take(self, most: int) -> None:
        self.broker.takes[RESULTS] = most

    @rule(number=NAMES, in_ms=st.sampled_from([-1000, 500, 5000, 6 * topics.HOUR_MS, 3 * topics.DAY_MS]),
          times=st.integers(1, 2))  # fmt: skip
    def a_request_is_classified(self, number: int, in_ms: int, times: int) -> None:
        """Twice where the classifier died before its commit."""
        deadline_ms = self.broker.now_ms + (number + 1) * in_ms
        classified = a_classified(a_request(request_id=f"r-{number}", deadline_ms=deadline_ms))
        for _ in range(times):
            place, headers = (CLASSIFIED, partition_of(number)), {DEADLINE: str(deadline_ms).encode()}
            self.broker.append(place, f"r-{number}".encode(), encode(classified), headers)

    @rule(ms=st.sampled_from([1, 400, 3000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.broker.now_ms += ms

    @rule(days=st.integers(1, 9), late_days=st.integers(0, 7))
    def days_pass(self, days: int, late_days: int) -> None:
        """What is older than its topic keeps is gone; upstream only when its whole segment is, which may be late. Of
        outcomes only what has been read: the rest would be lost by retention."""
        if Transactions.forgets or any(self.broker.hanging.values()):
            return  # a ledger begins again, or has another transaction, long before an outcome is too old to be ended
        self.broker.now_ms += days * topics.DAY_MS
        upstream_ms = self.broker.now_ms - topics.FLOW_MS - late_days * topics.DAY_MS
        self.broker.forget(CLASSIFIED, upstream_ms)
        if all(self.read[p] >= len(self.broker.logs[OUTCOMES, p]) for p in range(PARTITIONS)):
            self.broker.forget(OUTCOMES, upstream_ms)
        self.broker.forget(RESULTS, self.broker.now_ms - topics.WINDOW_MS)
        self.broker.forget(ENDED, self.broker.now_ms - topics.ENDED_MS)

    @rule(days=st.sampled_from([0, 9, -9]))
    def its_machine_is_given_this_clock(self, days: int) -> None:
        self.off_ms = days * topics.DAY_MS
        if not days and not self.lanes:
            self.live()

    # ------------------------------------------------------------------ what the ledger does

    @rule(partition=st.integers(0, PARTITIONS - 1), most=st.integers(1, 7))
    def it_serves_a_batch(self, partition: int, most: int) -> None:
        records = self.broker.read((OUTCOMES, partition), self.read[partition], most)
        if records and self.lanes:
            before = [record for record in records if record.offset < self.begin[partition]]
            new = records[len(before) :]
            ended = self.act(
                partition,
                lambda lane: lane.end_lost(before) + (lane.serve(new, Group(self.broker)) if new else []),
            )
            if ended is not None:
                self.open[partition].end(digest_of(name.encode()) for name in ended)
                self.read[partition] = records[-1].offset + 1

    def act(self, partition: int, what: Callable[[LedgerPartition], list[str]]) -> list[str] | None:
        """As `Ledger._on`; None: a wrong clock ended the session, and another has begun."""
        with connected(self.broker):
            try:
                try:
                    return what(self.lanes[partition])
                except KafkaException:
                    self.lanes[partition].reopen()
                    return what(self.lanes[partition])
            except (ClockOff, MarkerLost):
                pass
        self.crashes += 1  # it had committed its transaction
        self.live()
        return None

    @rule(partition=st.integers(0, PARTITIONS - 1), most=st.integers(1, 7))
    def its_follower_reads_on(self, partition: int, most: int) -> None:
        if partition in self.open:
            records = self.broker.read((CLASSIFIED, partition), self.followed[partition], most)
            ended = self.lanes[partition].ended
            self.open[partition].take(records, ended.known, ended.since_ms())
            self.followed[partition] = records[-1].offset + 1 if records else self.followed[partition]

    @rule(most=st.integers(1, 5))
    def it_ends_what_is_overdue(self, most: int) -> None:
        for partition in list(self.lanes):
            requests = self.open.get(partition)
            overdue = requests.overdue(self.broker.now_ms, GRACE_MS, most) if requests is not None else []
            place = (CLASSIFIED, partition)
            records = [record for entry in overdue for record in self.broker.read(place, entry.offset, 1)]
            records = [record for record, entry in zip(records, overdue, strict=False) if record.offset == entry.offset]
            if records:
                self.act(partition, lambda lane, some=records: lane.expire(some))  # type: ignore[misc]
            if requests is not None:
                requests.end(entry.digest for entry in overdue)

    # ------------------------------------------------------------------ what goes wrong

    @rule()
    def it_is_killed(self) -> None:
        self.live()

    @rule(hidden=st.integers(1, 12))
    def it_is_killed_and_a_leader_thaws_that_is_behind(self, hidden: int) -> None:
        self.broker.hidden = hidden
        self.live()

    @rule()
    def the_broker_loses_the_marker_of_the_next_transaction(self) -> None:
        unread = [each for p in range(PARTITIONS) for each in self.broker.logs[OUTCOMES, p][self.read[p] :]]
        Transactions.forgets = all(each.at_ms > self.broker.now_ms - topics.DAY_MS for each in unread)

    @rule(when=st.sampled_from(["before", "after"]))
    def its_connection_breaks_in_the_next_transaction(self, when: str) -> None:
        Transactions.breaks = when
        self.crashes += when == "after"

    @rule(partition=st.integers(0, PARTITIONS - 1), when=st.sampled_from(["before", "after"]), serves=st.booleans())
    def it_is_killed_in_a_transaction(self, partition: int, when: str, serves: bool) -> None:
        Transactions.dies, Transactions.breaks, Transactions.forgets = when, "", False
        with contextlib.suppress(Crash):
            self.it_serves_a_batch(partition, 5) if serves else self.it_ends_what_is_overdue(5)
        Transactions.dies = ""
        self.crashes += when == "after"
        self.live()

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def its_partition_goes_to_another_and_it_does_not_know(self, partition: int) -> None:
        if not self.lanes:
            return
        Transactions.breaks = ""
        zombie, at = self.lanes[partition], self.read[partition]
        with connected(self.broker):
            try:
                self.lanes[partition] = self.lane(partition)
            except ClockOff:
                self.live()
                return
            self.follow(partition, self.lanes[partition])
            self.begin[partition] = self.broker.committed.get((OUTCOMES, partition), 0)
            self.read[partition] = max(0, self.begin[partition] - OVERLAP)
            before = len(self.broker.logs[RESULTS, partition])
            for records in (self.broker.read((OUTCOMES, partition), at, 5), self._classified(partition)):
                try:
                    is_outcomes = bool(records) and records[0].topic == topics.OUTCOMES
                    if records:
                        zombie.serve(records, Group(self.broker)) if is_outcomes else zombie.expire(records)
                except KafkaException:
                    pass
            assert len(self.broker.logs[RESULTS, partition]) == before, "a fenced owner wrote a result"

    def _classified(self, partition: int) -> list[Incoming]:
        return self.broker.read((CLASSIFIED, partition), 0, 100)

    # ------------------------------------------------------------------ what is promised

    def results(self) -> dict[str, list[tuple[int, int, Result]]]:
        """request -> (partition, when, result) of each result it has."""
        found: defaultdict[str, list[tuple[int, int, Result]]] = defaultdict(list)
        for partition in range(PARTITIONS):
            for written in self.broker.logs[RESULTS, partition]:
                if written.is_committed:
                    result = decode(written.value, Result)
                    assert written.key == result.request_id.encode()
                    found[result.request_id].append((partition, written.at_ms, result))
        return found

    def said_between(self, name: str, after_ms: int, until_ms: int) -> bool:
        """Whether somebody asked for it, or reported its end, anew."""
        logs = [self.broker.logs[topic, p] for topic in (OUTCOMES, CLASSIFIED) for p in range(PARTITIONS)]
        return any(each.key == name.encode() and after_ms < each.at_ms <= until_ms for log in logs for each in log)

    @invariant()
    def a_request_has_one_result(self) -> None:
        """Another only where its id was used anew when all else of it was forgotten."""
        for name, results in self.results().items():
            for before_ms, after_ms in itertools.pairwise(sorted(at for _, at, _ in results)):
                assert after_ms - before_ms >= topics.WINDOW_MS - topics.SKEW_MS, f"{name} ended {len(results)} times"
                assert self.said_between(name, before_ms, after_ms), f"{name} ended again long after"
            assert {partition for partition, _, _ in results} == {partition_of(int(name[2:]))}

    @invariant()
    def what_was_committed_has_a_result_or_a_dead_letter_or_was_moved(self) -> None:
        ended, expected = self.results().keys() | self.reported(), Counter[bytes]()
        letters = Counter(
            dict(each.headers)[ERROR + "partition"] + b"@" + dict(each.headers)[ERROR + "offset"]
            for each in [*self.broker.visible(topics.DLQ), *self.without_marker(DLQ)]
        )
        for partition in range(PARTITIONS):
            log = self.broker.logs[OUTCOMES, partition]
            for offset in range(self.broker.committed.get((OUTCOMES, partition), 0)):
                place = f"{partition}@{offset}".encode()
                if not log[offset].is_committed:
                    continue
                try:
                    outcome = decode(log[offset].value, Outcome)
                    if outcome.request_id.encode() != log[offset].key:
                        raise InvalidRecord("a foreign key")
                    is_moved = (1 - partition, log[offset].key, log[offset].value) in self.moved()
                    assert outcome.request_id in ended or is_moved or letters[place], f"{outcome.request_id} was lost"
                except InvalidRecord:
                    expected[place] += 1
        assert expected <= letters, "each record that is no outcome is in the dlq"
        assert all(count <= 1 + self.crashes for count in letters.values()), "and again only after a crash"

    def reported(self) -> set[str]:
        """Whose result was reported as committed by a broker that lost its marker, until a ledger has begun again."""
        return {(each.key or b"").decode() for each in self.without_marker(RESULTS)} if not self.is_over else set()

    def without_marker(self, topic: str) -> list[Written]:
        """Records of transactions that were reported as committed: open still, or aborted by a later producer."""
        return [written for place, written in [*self.broker.lost, *self.hanging()] if place[0] == topic]

    def moved(self) -> set[tuple[int, bytes | None, bytes | None]]:
        return {
            (partition, each.key, each.value)
            for partition in range(PARTITIONS)
            for each in self.broker.logs[OUTCOMES, partition]
            if each.is_committed and MOVED in dict(each.headers)
        } | {
            (place[1], each.key, each.value)
            for place, each in [*self.broker.lost, *self.hanging()]
            if not self.is_over and place[0] == OUTCOMES
        }

    def hanging(self) -> list[tuple[Place, Written]]:
        return [(place, self.broker.logs[place][at]) for each in self.broker.hanging.values() for place, at in each]

    @invariant()
    def the_ledger_knows_what_has_ended(self) -> None:
        since_ms = self.broker.now_ms - topics.DAY_MS
        for partition, lane in self.lanes.items():
            log = self.broker.logs[RESULTS, partition]
            ended = {each.key.decode() for each in log if each.at_ms > since_ms and each.is_committed and each.key}
            assert ended == lane.ended.among(ended)

    def teardown(self) -> None:
        """In the end everything is read and every deadline has passed: each request has ended, and once."""
        Transactions.breaks, Transactions.forgets, self.off_ms, self.is_over = "", False, 0, True
        self.live()
        for _ in range(2):  # what was moved is served the second time
            for partition in self.lanes:
                self.its_follower_reads_on(partition, 1000)
                self.it_serves_a_batch(partition, 1000)
        since_ms = max(lane.ended.since_ms() for lane in self.lanes.values())
        self.broker.now_ms += AHEAD_MS + GRACE_MS + 1
        self.it_ends_what_is_overdue(1000)
        self.a_request_has_one_result()
        self.what_was_committed_has_a_result_or_a_dead_letter_or_was_moved()
        ended = self.results().keys()
        for partition in self.lanes:
            for record in self._classified(partition):
                request = decode(record.value, ClassifiedRequest).request
                is_too_far = (request.deadline_ms or 0) - record.timestamp_ms > AHEAD_MS
                if record.timestamp_ms >= since_ms and not is_too_far:
                    assert request.request_id in ended


TestLedger = LedgerMachine.TestCase
TestLedger.settings = depth(60)


def a_machine_without_a_marker() -> LedgerMachine:
    """Its ledger wrote a result, the broker said that it is committed, and no reader finds it."""
    machine = LedgerMachine()
    machine.a_role_says_how_a_request_ended(0, Status.COMPLETED)
    machine.the_broker_loses_the_marker_of_the_next_transaction()
    machine.it_serves_a_batch(partition_of(0), 5)
    assert machine.broker.committed == {(OUTCOMES, partition_of(0)): 1}
    assert not machine.results()
    return machine


def test_the_next_ledger_ends_a_request_again_whose_result_the_broker_reported_and_lost() -> None:
    machine = a_machine_without_a_marker()
    machine.live()
    machine.it_serves_a_batch(partition_of(0), 5)
    assert [len(results) for results in machine.results().values()] == [1]


def test_a_ledger_whose_producer_is_replaced_notices_that_its_last_results_are_lost() -> None:
    machine = a_machine_without_a_marker()
    machine.a_role_says_how_a_request_ended(0, Status.FAILED)  # a repetition makes no transaction; another request does
    other = next(number for number in range(1, 8) if partition_of(number) == partition_of(0))
    machine.a_role_says_how_a_request_ended(other, Status.COMPLETED)
    machine.its_connection_breaks_in_the_next_transaction("before")
    machine.it_serves_a_batch(partition_of(0), 5)
    machine.it_serves_a_batch(partition_of(0), 5)
    assert {name: len(results) for name, results in machine.results().items()} == {"r-0": 1, f"r-{other}": 1}


def test_the_marker_of_a_later_transaction_shows_a_result_whose_own_was_lost() -> None:
    machine = a_machine_without_a_marker()
    other = next(number for number in range(1, 8) if partition_of(number) == partition_of(0))
    machine.a_role_says_how_a_request_ended(other, Status.COMPLETED)
    machine.it_serves_a_batch(partition_of(0), 5)
    assert {name: len(results) for name, results in machine.results().items()} == {"r-0": 1, f"r-{other}": 1}
