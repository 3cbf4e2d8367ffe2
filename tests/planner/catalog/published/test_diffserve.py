"""DiffServe's files."""

import pytest

from planner.catalog.discriminator import DeferralPoint
from planner.catalog.published.diffserve import confidences, curve_of, deferral, discriminator, runtimes
from planner.catalog.published.lines import InvalidPublished

RUNTIMES = """,Model,Accel,batchsize,avg_runtime,50th_pct
0,sdturbo,onnxruntime_cpu,1,900,900
1,sdturbo,onnxruntime_gpu_ampere,1,100,100
2,sdturbo,onnxruntime_gpu_ampere,2,150,150
3,sdturbo,onnxruntime_gpu_ampere,32,100000,100000
4,sdv15,onnxruntime_gpu_ampere,1,1780,1780
"""


def test_run_times_are_those_of_one_accelerator_without_the_batches_that_do_not_fit() -> None:
    assert runtimes(RUNTIMES, "r.csv") == {"sdturbo": {1: 100, 2: 150}, "sdv15": {1: 1780}}
    assert runtimes(RUNTIMES, "r.csv", "cpu") == {"sdturbo": {1: 900}}
    with pytest.raises(InvalidPublished, match="an accelerator that ends with 'pascal'"):
        runtimes(RUNTIMES, "r.csv", "pascal")


def test_a_negative_run_time_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidPublished, match=r"r\.csv:3: avg_runtime"):
        runtimes(RUNTIMES.replace("1,100,100", "1,-100,100"), "r.csv")


def test_a_deferral_curve_rises() -> None:
    assert deferral(",t,f_t\n0,0.0,0.0\n1,0.5,0.25\n", "f.csv") == (DeferralPoint(0, 0), DeferralPoint(0.5, 0.25))
    with pytest.raises(InvalidPublished, match=r"f\.csv:3: t must rise and f_t not fall"):
        deferral(",t,f_t\n0,0.1,0.3\n1,0.5,0.25\n", "f.csv")


def test_scores_of_being_fake_become_confidences() -> None:
    found = confidences("content_id,sdturbo,sdv15\n1,7.30E-01,5.53E-01\n2,0,1\n", "c.csv")
    assert found == {"sdturbo": pytest.approx((0.27, 1)), "sdv15": pytest.approx((0.447, 0))}
    assert discriminator("0.75\n0.25\n\n1\n0\n", "d.csv", images=2) == ((0.25, 0.75), (0, 1))


@pytest.mark.parametrize(
    ("text", "told"),
    [("content_id,a\n1,0.1\n3,0.1\n", r"c\.csv:3: content_id must count up: got 3 after 1"),
     ("content_id,a\n1,nan\n", r"c\.csv:2: a must be a finite number")],
)  # fmt: skip
def test_confidences_out_of_order_or_range_are_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidPublished, match=told):
        confidences(text, "c.csv")


def test_a_score_that_is_none_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidPublished, match=r"d\.csv:2 must be a number: got 'x'"):
        discriminator("0.5\nx\n", "d.csv", images=1)


def test_the_curve_of_confidences_counts_those_below_and_ends_where_nothing_is_kept() -> None:
    curve = curve_of([0.1, 0.2, 0.2, 0.6], step=0.1)
    assert [point.deferred for point in curve] == [0, 0, 0.25, 0.75, 0.75, 0.75, 0.75, 1]
    assert [point.threshold for point in curve] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
