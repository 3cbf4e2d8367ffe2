"""Growth is of the last tenth beside the second, in one process's life; a peak is no growth."""

import os

from replay.bench.soak.samples import MAX_KEPT, Life, Sample, Watch


def a_life(rss_kb: list[int]) -> Life:
    """A process with a sample each 10 requests."""
    life = Life(1)
    for number, each in enumerate(rss_kb):
        life.add(Sample(10 * number, each, 20), 0.1 * number)
    return life


def growth(life: Life) -> float | None:
    """The growth of its memory in %."""
    change = life.change(lambda sample: sample.rss_kb)
    return change and round(change.percent, 2)


def test_memory_that_grows_as_a_process_warms_up_is_no_growth() -> None:
    assert growth(a_life([50_000 + 500 * n for n in range(100)] + [100_000] * 900)) == 0


def test_memory_that_grows_with_each_request_is_growth() -> None:
    assert growth(a_life([100_000 + 10 * n for n in range(1000)])) == 7.88


def test_a_peak_of_some_samples_is_no_growth() -> None:
    assert growth(a_life([100_000] * 960 + [200_000] * 30 + [100_000] * 10)) == 0


def test_processor_time_counts_from_the_first_sample_on() -> None:
    life = Life(1)
    for cpu_s in (40.0, 41.0, 43.5):
        life.add(Sample(0, 1, 1), cpu_s)
    assert life.cpu_s == 3.5


def test_the_course_of_memory_has_a_median_for_each_part() -> None:
    life = a_life([100_000] * 50 + [200_000] * 49 + [900_000])
    assert life.course(2, lambda sample: sample.rss_kb) == [100_000, 200_000]
    assert Life(1).course(2, lambda sample: sample.rss_kb) == []


def test_few_samples_say_nothing() -> None:
    assert growth(a_life([100_000] * 30)) is None
    assert growth(Life(1)) is None


def test_a_long_life_keeps_few_samples_of_all_of_it() -> None:
    life = a_life([100_000 + n for n in range(20 * MAX_KEPT)])
    assert len(life.samples) <= MAX_KEPT + 1
    assert life.samples[0].ended == 0
    assert life.requests >= 10 * (20 * MAX_KEPT - 40)
    assert abs((growth(life) or 0) - growth_of_all(20 * MAX_KEPT)) < 0.2


def growth_of_all(count: int) -> float:
    """What a process that grows by 1 kB a sample has grown by, in %."""
    return 100 * ((100_000 + 0.95 * count) / (100_000 + 0.15 * count) - 1)


def test_a_role_that_was_started_again_is_judged_by_its_longest_life() -> None:
    first, second = a_life([100_000 + 100 * n for n in range(60)]), a_life([90_000] * 600)
    watch = Watch([["ledger", 1, 1, 60, 3.0, first.samples], ["ledger", 2, 1, 600, 4.0, second.samples]])
    assert growth(watch.longest()["ledger"]) == 0
    assert watch.processes() == {"ledger": 2}
    assert watch.cpu_s() == {"ledger": 7.0}


def test_samples_of_a_process_are_kept_for_the_next_session() -> None:
    watch = Watch()
    watch.look({"soak": os.getpid(), "gone": 2**22 + 1}, 5)
    (life,) = Watch(watch.kept()).longest().values()
    assert (life.pid, life.samples[0].ended) == (os.getpid(), 5)
    assert life.samples[0].rss_kb > 1000
    assert life.samples[0].descriptors > 0
