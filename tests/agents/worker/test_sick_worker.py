"""What a worker does with its jobs as calls fail: by whose fault it is."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agents.engines import CannotGenerate, Generated, GenerationTask
from agents.engines.finite import BadImage
from agents.worker.jobs import Taken
from planner.catalog.options import ResolvedOptions
from planner.serving.dispatch.worker_loads import Load
from schemas.messages import GenerateJob, GenerateOptions, ImageGenerated, Outcome, Status
from schemas.record import Outgoing
from schemas.topics import DLQ, IMAGES, OUTCOMES, POISON, jobs_topic, waiting_topic
from tests.agents.stubs import StubEngine, a_record, read, topics_of
from tests.agents.worker.driving import a_driver, answers
from tests.builders import a_classified, a_job, a_plan, a_request, a_variant
from tests.memory_store import MemoryImageStore

JOBS, WAITING = jobs_topic("light", 1).name, waiting_topic("light").name
CUDA = RuntimeError("CUDA error: an illegal memory access was encountered")
NO_MEMORY = RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")

Fails = Callable[[Sequence[GenerationTask], ResolvedOptions], Exception | None]


class FailingEngine(StubEngine):
    """Raises what `fails` says of a call."""

    def __init__(self, fails: Fails) -> None:
        super().__init__()
        self.fails, self.freed = fails, 0

    def free(self) -> None:
        self.freed += 1

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: Callable[[], bool]
    ) -> Generated | None:
        error = self.fails(tasks, how)
        if error is None:
            return super().generate(tasks, how, should_stop)
        self.batches.append([task.request_id for task in tasks])
        raise error


class Ward:
    """A worker `w-9`, beside others of its level."""

    def __init__(self, fails: Fails, *others: str) -> None:
        self.engine, self.sick = FailingEngine(fails), list[tuple[str, bool]]()
        loads = [Load(name, number + 1, 10.0 * number) for number, name in enumerate(("w-9", *others))]
        self.driver = a_driver(
            "w-9", self.engine, a_variant(honours=("width", "height", "steps")), MemoryImageStore(), plan=a_plan(),
            on_sick=lambda *said: self.sick.append(said), loads=lambda _variant, _now_ms: loads,
        )  # fmt: skip

    def take(self, *window: Taken) -> list[Outgoing]:
        return answers(self.driver, window)


def taken(name: str, options: GenerateOptions | None = None, **changes: Any) -> Taken:
    request = a_request(request_id=name, options=options or GenerateOptions())
    job = a_job(a_classified(request), job_id=name, **changes)
    return Taken(a_record(job, key=name.encode()), 1)


def jobs_in(records: Sequence[Outgoing]) -> dict[str, GenerateJob]:
    jobs = [read(each, GenerateJob) for each in records if each.topic in (JOBS, WAITING)]
    return {job.classified.request.request_id: job for job in jobs}


def ended(record: Outgoing) -> Outcome:
    assert record.topic == OUTCOMES
    outcome: Outcome = read(record, Outcome)
    return outcome


def on_calls_with(name: str, error: Exception) -> Fails:
    return lambda tasks, _how: error if any(task.request_id == name for task in tasks) else None


def always(error: Exception) -> Fails:
    return lambda _tasks, _how: error


def but_of_its_own(error: Exception) -> Fails:
    return lambda tasks, _how: None if tasks[0].request_id == "check" else error


def test_a_dead_device_hands_back_what_was_not_begun_uncounted_and_makes_no_more_calls() -> None:
    ward = Ward(always(CUDA), "w-1", "w-2")
    ward.driver.begin([taken("a"), taken("b"), taken("c")], 2)
    written: list[Outgoing] = []
    ward.driver.run(written.append)
    assert ward.engine.batches == [["a", "b"]]
    assert [(each.topic, each.partition) for each in written] == [(JOBS, 2), (JOBS, 2), (WAITING, 0)]
    jobs = jobs_in(written)
    assert [(jobs[name].attempt, jobs[name].deaths, jobs[name].failed_on) for name in "abc"] == [
        (2, 1, ("w-9",)), (2, 1, ("w-9",)), (1, 0, ()),
    ]  # fmt: skip
    assert ward.sick == [(f"RuntimeError: {CUDA}", True)]


def test_a_job_goes_to_the_least_loaded_worker_that_has_not_failed_with_it() -> None:
    ward = Ward(but_of_its_own(ValueError("no")), "w-1", "w-2", "w-3")
    (again,) = ward.take(taken("a", attempt=2, failed_on=("w-1",)))
    assert (again.partition, read(again, GenerateJob).worker_id) == (3, "w-2")
    assert read(again, GenerateJob).failed_on == ("w-1", "w-9")


def test_jobs_of_a_dead_device_wait_for_a_worker_where_there_is_no_other() -> None:
    written = Ward(always(CUDA)).take(taken("a"))
    assert topics_of(written) == [WAITING]


def test_a_job_that_a_device_failed_with_is_generated_alone_and_goes_elsewhere() -> None:
    ward = Ward(on_calls_with("a", CUDA), "w-1", "w-2")
    written = ward.take(taken("b"), taken("a", deaths=1, attempt=2, failed_on=("w-7",)), taken("c"))
    assert ward.engine.batches == [["b", "c"], ["a"]]
    assert topics_of(written) == [IMAGES, IMAGES, OUTCOMES, DLQ, POISON]
    assert ward.sick[0][1] is False, "a death with a suspected job does not count against the device"
    said = ended(written[2])
    assert (said.status, "ended 2 workers" in said.reason) == (Status.FAILED, True)


def test_one_workers_device_alone_makes_no_job_poison_at_its_second_failure() -> None:
    ward = Ward(always(CUDA), "w-1")
    (again,) = ward.take(taken("a", deaths=1, attempt=2, failed_on=("w-9",)))
    assert (read(again, GenerateJob).attempt, read(again, GenerateJob).deaths) == (3, 1)
    written = Ward(always(CUDA)).take(taken("a", deaths=1, attempt=3, failed_on=("w-9",)))
    assert topics_of(written) == [OUTCOMES, DLQ, POISON], "a fleet of one must not go on for ever"


def test_a_call_with_too_little_memory_is_halved_and_the_worker_remembers() -> None:
    ward = Ward(lambda tasks, _how: NO_MEMORY if len(tasks) > 2 else None)
    window = [taken(name) for name in "abcd"]
    assert topics_of(ward.take(*window)) == [IMAGES] * 4
    assert [len(batch) for batch in ward.engine.batches] == [4, 2, 2]
    assert ward.engine.freed == 1
    ward.engine.batches.clear()
    ward.take(*window)
    assert [len(batch) for batch in ward.engine.batches] == [2, 2]
    assert ward.driver.worker.limits_in_words() == "too little memory for more images at once than 2 of 0.00 megapixels"
    assert ward.sick == []


def test_the_images_of_one_request_are_generated_in_parts_that_fit() -> None:
    ward = Ward(lambda tasks, _how: NO_MEMORY if len(tasks) > 2 else None)
    (written,) = ward.take(taken("a", options=GenerateOptions(n=5)))
    assert [len(batch) for batch in ward.engine.batches] == [5, 2, 2, 1]
    assert len(read(written, ImageGenerated).more) == 4


LARGE = GenerateOptions(width=1024, height=1024)


def too_large(_tasks: Sequence[GenerationTask], how: ResolvedOptions) -> Exception | None:
    return NO_MEMORY if how.width > 512 else None


def test_a_size_that_does_not_fit_alone_goes_to_another_worker_once_and_is_then_rejected() -> None:
    ward = Ward(too_large, "w-1")
    (again,) = ward.take(taken("a", options=LARGE))
    assert (again.topic, again.partition, read(again, GenerateJob).attempt) == (JOBS, 2, 2)
    (refused,) = ward.take(taken("b", attempt=2, options=LARGE, failed_on=("w-1",)))
    said = ended(refused)
    assert (said.status, said.code, said.param) == (Status.REJECTED, "unhonoured", "width")
    assert "too little memory here for an image of 1.0 megapixels, even alone" in said.reason
    assert ward.engine.batches == [["a"]], "what did not fit once is not tried again within minutes"
    assert topics_of(ward.take(taken("c"))) == [IMAGES]


def test_an_ordinary_size_that_suddenly_does_not_fit_is_no_limit_of_the_worker() -> None:
    ward = Ward(always(NO_MEMORY), "w-1")
    (again,) = ward.take(taken("a"))
    assert (again.topic, again.partition) == (JOBS, 2)
    assert ward.driver.worker.limits == {}


def test_what_can_never_be_generated_is_rejected_at_once() -> None:
    ward = Ward(always(CannotGenerate("adapter 'x' does not fit the base", "adapters")), "w-1")
    (refused,) = ward.take(taken("a"))
    said = ended(refused)
    assert (said.status, said.code, said.param) == (Status.REJECTED, "unhonoured", "adapters")
    assert said.reason == "adapter 'x' does not fit the base"


def test_an_image_that_is_none_is_generated_once_more_elsewhere_and_then_fails() -> None:
    ward = Ward(but_of_its_own(BadImage("all pixels are black")), "w-1")
    (again,) = ward.take(taken("a"))
    assert (again.partition, read(again, GenerateJob).failed_on) == (2, ("w-9",))
    failed = ward.take(taken("b", attempt=2, failed_on=("w-1",)))
    assert ended(failed[0]).status is Status.FAILED
    assert "all pixels are black" in ended(failed[0]).reason


def test_calls_that_fail_on_three_jobs_in_a_row_and_on_one_of_its_own_make_a_worker_sick() -> None:
    ward = Ward(lambda tasks, _how: None if tasks[0].request_id == "well" else BadImage("black"), "w-1", "w-2")
    ward.take(taken("well"))
    ward.engine.batches.clear()
    written = ward.take(taken("a"), taken("b", options=LARGE), taken("c", options=GenerateOptions(steps=3)), taken("d"))
    assert ward.engine.batches == [["a", "d"], ["a"], ["d"], ["b"], ["check"]]
    assert "calls failed on 3 different jobs, and on one of its own: BadImage" in ward.sick[0][0]
    assert jobs_in(written)["c"].attempt == 1, "handed back"


def test_a_worker_whose_first_call_fails_is_checked_at_once() -> None:
    ward = Ward(always(ValueError("no")), "w-1")
    assert topics_of(ward.take(taken("a"))) == [JOBS]
    assert ward.engine.batches == [["a"], ["check"]]
    assert len(ward.sick) == 1


def test_prompts_that_calls_fail_on_make_no_worker_sick() -> None:
    ward = Ward(but_of_its_own(ValueError("a prompt")))
    for name in "abcdef":
        ward.take(taken(name))
    assert ward.engine.batches.count(["check"]) == 2, "after the first, and after three more"
    assert ward.sick == []


@pytest.mark.parametrize("well", ["b"])
def test_a_call_that_does_not_fail_between_them_begins_the_count_anew(well: str) -> None:
    ward = Ward(lambda tasks, _how: None if tasks[0].request_id == well else ValueError("no"))
    for name in "baabbcd":
        ward.take(taken(name))
    assert ["check"] not in ward.engine.batches
