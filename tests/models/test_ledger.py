"""The ledger: one result per request, none lost, however its input is cut, repeated, and its owner killed or fenced."""

import contextlib
import itertools
from collections import Counter, defaultdict

from confluent_kafka import KafkaException
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agents.lane import WINDOW_MS, Lane
from agents.open_requests import OpenRequests
from schemas import topics
from schemas.errors import InvalidRecord
from schemas.messages import ClassifiedRequest, Outcome, Result, Status
from schemas.record import Incoming
from streams.codec import decode, encode
from streams.headers import DEADLINE
from streams.poison import ERROR
from streams.settings import Settings, load
from tests.builders import NOW_MS, a_classified, a_request, an_outcome
from tests.models.broker import Broker, Crash, Group, Transactions, connected
from tests.models.depth import depth

PARTITIONS = 2
GRACE_MS = 2000
SETTINGS: Settings = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
OUTCOMES, RESULTS, CLASSIFIED, DLQ = (f"pochade.{name}" for name in (
    topics.OUTCOMES, topics.RESULTS, topics.CLASSIFIED, topics.DLQ
))  # fmt: skip
NAMES = st.integers(0, 7)
STATUSES = st.sampled_from([Status.COMPLETED, Status.FAILED, Status.CANCELLED])
GARBAGE = st.sampled_from([None, b"", b"\0", b"{}", encode(a_request())])


def partition_of(number: int) -> int:
    return number % PARTITIONS


class LedgerMachine(RuleBasedStateMachine):
    """Topics and commits in `broker`; the rest is what one ledger process knows, and dies with it."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker(now_ms=NOW_MS)
        self.crashes = 0  # between a transaction and the group's commit
        self.lanes: dict[int, Lane] = {}
        self.live()

    def live(self) -> None:
        """A new process: it fences the former one, reads results, and begins at the last commit."""
        with connected(self.broker):
            self.lanes = {partition: Lane(SETTINGS, partition) for partition in range(PARTITIONS)}
        self.read = {p: self.broker.committed.get((OUTCOMES, p), 0) for p in self.lanes}
        self.open, self.followed = OpenRequests(), dict.fromkeys(self.lanes, 0)

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

    @rule(number=NAMES, in_ms=st.sampled_from([-1000, 500, 5000]), times=st.integers(1, 2))
    def a_request_is_classified(self, number: int, in_ms: int, times: int) -> None:
        """Twice where the classifier died before its commit."""
        deadline_ms = NOW_MS + (number + 1) * in_ms
        classified = a_classified(a_request(request_id=f"r-{number}", deadline_ms=deadline_ms))
        for _ in range(times):
            place, headers = (CLASSIFIED, partition_of(number)), {DEADLINE: str(deadline_ms).encode()}
            self.broker.append(place, f"r-{number}".encode(), encode(classified), headers)

    @rule(ms=st.sampled_from([1, 400, 3000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.broker.now_ms += ms

    @rule(days=st.integers(1, 9))
    def days_pass(self, days: int) -> None:
        """What is older than its topic keeps is gone; what a ledger has not read by then is lost by retention."""
        if any(self.read[p] < len(self.broker.logs[OUTCOMES, p]) for p in self.lanes):
            return
        self.broker.now_ms += days * topics.DAY_MS
        for name, kept in ((OUTCOMES, 7), (CLASSIFIED, 7), (RESULTS, 8)):
            self.broker.forget(name, self.broker.now_ms - kept * topics.DAY_MS)

    # ------------------------------------------------------------------ what the ledger does

    @rule(partition=st.integers(0, PARTITIONS - 1), most=st.integers(1, 7))
    def it_serves_a_batch(self, partition: int, most: int) -> None:
        records = self.broker.read((OUTCOMES, partition), self.read[partition], most)
        if records:
            with connected(self.broker):
                self.lanes[partition].serve(records, Group(self.broker))
            self.read[partition] = records[-1].offset + 1

    @rule(partition=st.integers(0, PARTITIONS - 1), most=st.integers(1, 7))
    def its_follower_reads_on(self, partition: int, most: int) -> None:
        for record in self.broker.read((CLASSIFIED, partition), self.followed[partition], most):
            self.open.on_record(record)
            self.followed[partition] = record.offset + 1

    @rule()
    def it_ends_what_is_overdue(self) -> None:
        for partition, lane in self.lanes.items():
            overdue = self.open.overdue(partition, self.broker.now_ms, GRACE_MS)
            with connected(self.broker):
                lane.expire(overdue)

    # ------------------------------------------------------------------ what goes wrong

    @rule()
    def it_is_killed(self) -> None:
        self.live()

    @rule(partition=st.integers(0, PARTITIONS - 1), when=st.sampled_from(["before", "after"]), serves=st.booleans())
    def it_is_killed_in_a_transaction(self, partition: int, when: str, serves: bool) -> None:
        Transactions.dies = when
        with contextlib.suppress(Crash):
            self.it_serves_a_batch(partition, 5) if serves else self.it_ends_what_is_overdue()
        Transactions.dies = ""
        self.crashes += when == "after"
        self.live()

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def its_partition_goes_to_another_and_it_does_not_know(self, partition: int) -> None:
        zombie, at = self.lanes[partition], self.read[partition]
        with connected(self.broker):
            self.lanes[partition] = Lane(SETTINGS, partition)
            self.read[partition] = self.broker.committed.get((OUTCOMES, partition), 0)
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
                result = decode(written.value, Result)
                assert written.key == result.request_id.encode()
                found[result.request_id].append((partition, written.at_ms, result))
        return found

    @invariant()
    def a_request_has_one_result(self) -> None:
        for name, results in self.results().items():
            times = sorted(at for _, at, _ in results)
            gaps = [after - before for before, after in itertools.pairwise(times)]
            assert all(gap >= WINDOW_MS for gap in gaps), f"{name} ended {len(results)} times"
            assert {partition for partition, _, _ in results} == {partition_of(int(name[2:]))}

    @invariant()
    def what_was_committed_has_a_result_or_a_letter(self) -> None:
        ended, expected = self.results().keys(), Counter[bytes]()
        for partition in range(PARTITIONS):
            log = self.broker.logs[OUTCOMES, partition]
            for offset in range(self.broker.committed.get((OUTCOMES, partition), 0)):
                try:
                    outcome = decode(log[offset].value, Outcome)
                    if outcome.request_id.encode() != log[offset].key:
                        raise InvalidRecord("a foreign key")
                    assert outcome.request_id in ended, f"{outcome.request_id} was lost"
                except InvalidRecord:
                    expected[f"{partition}@{offset}".encode()] += 1
        letters = Counter(
            dict(each.headers)[ERROR + "partition"] + b"@" + dict(each.headers)[ERROR + "offset"]
            for each in self.broker.logs[DLQ, 0]
        )
        assert expected <= letters, "each record that is no outcome is in the dlq"
        assert all(count <= 1 + self.crashes for count in letters.values()), "and again only after a crash"

    @invariant()
    def the_ledger_knows_what_has_ended(self) -> None:
        since_ms = self.broker.now_ms - topics.DAY_MS
        for partition, lane in self.lanes.items():
            log = self.broker.logs[RESULTS, partition]
            assert {(each.key or b"").decode() for each in log if each.at_ms > since_ms} <= lane._ended.keys()

    def teardown(self) -> None:
        """In the end everything is read and every deadline has passed: each request has ended, and once."""
        for partition in self.lanes:
            self.its_follower_reads_on(partition, 1000)
            self.it_serves_a_batch(partition, 1000)
        self.broker.now_ms += 10 * 60_000
        self.it_ends_what_is_overdue()
        self.a_request_has_one_result()
        self.what_was_committed_has_a_result_or_a_letter()
        ended = self.results().keys()
        for partition in self.lanes:
            for record in self._classified(partition):
                assert decode(record.value, ClassifiedRequest).request.request_id in ended


TestLedger = LedgerMachine.TestCase
TestLedger.settings = depth(60)
