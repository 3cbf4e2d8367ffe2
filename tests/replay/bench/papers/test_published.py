"""The published files: made-up ones and those at hand in a catalog; what is wrong is reported with file and line."""

import gzip
import pathlib

import pytest

from planner.catalog.curves import PairRow, front
from planner.catalog.entries import DeferralPoint
from planner.catalog.model import Catalog
from planner.catalog.validate import InvalidCatalog
from planner.policies import diffserve
from replay.bench.papers.published import (
    InvalidPublished,
    confidences,
    curve_of,
    deferral,
    discriminator,
    grouped,
    hybrid_configs,
    lines,
    published_catalog,
    published_text,
    runtimes,
    scores,
    with_published,
)
from schemas.errors import PochadeError, Unknown
from streams.parsing.catalog import parse
from tests.builders import a_catalog
from tests.paths import CATALOGS, PUBLISHED
from tests.planner.policies.test_hadis import PUBLISHED_PLANS, drafted, quality, seen

needs_files = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files are not beside this checkout")

RUNTIMES = "Model,Accel,batchsize,avg_runtime\nsdturbo,ampere,1,11\nsdv15,ampere,1,99\nother,ampere,1,5\n"

ACCELERATORS = """,Model,Accel,batchsize,avg_runtime,50th_pct
0,sdturbo,onnxruntime_cpu,1,900,900
1,sdturbo,onnxruntime_gpu_ampere,1,100,100
2,sdturbo,onnxruntime_gpu_ampere,2,150,150
3,sdturbo,onnxruntime_gpu_ampere,32,100000,100000
4,sdv15,onnxruntime_gpu_ampere,1,1780,1780
"""

HEADER = "light_model,heavy_model,router_ratio,disc_ratio,threshold,latency,fid\n"


def shipped(name: str) -> Catalog:
    return parse((CATALOGS / f"{name}.toml").read_text(), name)


def test_run_times_replace_those_of_the_first_cascade_s_levels() -> None:
    catalog = with_published(a_catalog(), {"runtimes": (RUNTIMES, "r.csv")})
    assert {name: v.latency_ms for name, v in catalog.variants.items()} == {"light": {1: 11}, "heavy": {1: 99}}


def test_run_times_that_fall_with_the_batch_are_refused() -> None:
    with pytest.raises(InvalidCatalog, match="growing with the batch size"):
        with_published(a_catalog(), {"runtimes": (RUNTIMES + "sdturbo,ampere,2,7\n", "r.csv")})


def test_a_discriminator_s_scores_become_the_curve_of_its_prompts_means() -> None:
    catalog = with_published(a_catalog(), {"discriminator": ("1\n1\n1\n0.6\n0\n0\n0\n0\n", "d.csv")})
    curve = dict(catalog.discriminator("look").deferral)
    assert curve[0.1] == 0
    assert curve[0.105] == 0.5
    assert curve[1.0] == 0.5


def test_an_unknown_kind_of_file_names_the_known_ones() -> None:
    with pytest.raises(Unknown, match="discriminator, hybrid_configs, runtimes"):
        with_published(a_catalog(), {"runtime": ("", "r.csv")})


@needs_files
@pytest.mark.parametrize("name", ["diffserve-sdturbo", "diffserve-sdxs", "diffserve-sdxlltn"])
def test_what_ships_is_what_the_published_files_of_a_cascade_hold(name: str) -> None:
    catalog = shipped(name)
    full = published_catalog(catalog.name, PUBLISHED)
    assert full.variants == catalog.variants
    assert full.discriminators == catalog.discriminators


@needs_files
def test_the_rows_that_ship_are_those_of_the_published_table_that_no_other_beats() -> None:
    catalog = shipped("hadis-l40s")
    full = published_catalog(catalog.name, PUBLISHED)
    assert len(full.pair_rows) == 726
    assert front(full.pair_rows) == front(catalog.pair_rows)
    assert len(front(catalog.pair_rows)) == len(catalog.pair_rows) == 46


def test_lines_know_where_they_stand_and_blank_ones_do_not_count() -> None:
    found = list(lines("\ufeffa,b\r\n1,2\r\n\r\n3,4\r\n", "x.csv", ("a",)))
    assert [(line.where, dict(line.cells)) for line in found] == [
        ("x.csv:2", {"a": "1", "b": "2"}), ("x.csv:4", {"a": "3", "b": "4"}),
    ]  # fmt: skip


def test_a_quoted_cell_may_hold_commas() -> None:
    (line,) = lines('prompt,n\n"a cat, a dog",2\n', "x.csv", ("prompt", "n"))
    assert line.cells["prompt"] == "a cat, a dog"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", r"x\.csv:1: no column a: got nothing"),
        ("b,c\n1,2\n", r"x\.csv:1: no column a: got b, c"),
        ("a,b\n1\n", r"x\.csv:2: 2 columns are needed: got 1"),
        ("a,b\n", r"x\.csv has a header and no line below it"),
    ],
)
def test_a_text_of_another_form_is_refused(text: str, reported: str) -> None:
    with pytest.raises(InvalidPublished, match=reported):
        list(lines(text, "x.csv", ("a",)))


@pytest.mark.parametrize(("cell", "reported"), [("x", "a number: got 'x'"), ("nan", "finite"), ("1.5", r"in \[0, 1\]")])
def test_a_cell_that_is_no_number_in_range_is_refused(cell: str, reported: str) -> None:
    (line,) = lines(f"a\n{cell}\n", "x.csv", ("a",))
    with pytest.raises(InvalidPublished, match=rf"x\.csv:2: a must be .*{reported}"):
        line.number("a", 0, 1)


def test_a_share_of_a_thing_is_no_whole_number() -> None:
    (line,) = lines("a\n1.5\n", "x.csv", ("a",))
    with pytest.raises(InvalidPublished, match=r"x\.csv:2: a must be a whole number: got '1.5'"):
        line.whole("a")


def test_rows_are_grouped_by_prompt_and_a_rest_is_refused() -> None:
    assert grouped([0.1, 0.2, 0.3, 0.4], 2, "x.csv") == ((0.1, 0.2), (0.3, 0.4))
    with pytest.raises(InvalidPublished, match=r"x\.csv must have a multiple of 2 rows"):
        grouped([0.1], 2, "x.csv")


def test_run_times_are_those_of_one_accelerator_without_the_batches_that_do_not_fit() -> None:
    assert runtimes(ACCELERATORS, "r.csv") == {"sdturbo": {1: 100, 2: 150}, "sdv15": {1: 1780}}
    assert runtimes(ACCELERATORS, "r.csv", "cpu") == {"sdturbo": {1: 900}}
    with pytest.raises(InvalidPublished, match="an accelerator that ends with 'pascal'"):
        runtimes(ACCELERATORS, "r.csv", "pascal")


def test_a_negative_run_time_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidPublished, match=r"r\.csv:3: avg_runtime"):
        runtimes(ACCELERATORS.replace("1,100,100", "1,-100,100"), "r.csv")


def test_a_deferral_curve_rises() -> None:
    assert deferral(",t,f_t\n0,0.0,0.0\n1,0.5,0.25\n", "f.csv") == (DeferralPoint(0, 0), DeferralPoint(0.5, 0.25))
    with pytest.raises(InvalidPublished, match=r"f\.csv:3: t must rise and f_t not fall"):
        deferral(",t,f_t\n0,0.1,0.3\n1,0.5,0.25\n", "f.csv")


def test_scores_of_being_fake_become_confidences() -> None:
    found = confidences("content_id,sdturbo,sdv15\n1,7.30E-01,5.53E-01\n2,0,1\n", "c.csv")
    assert found == {"sdturbo": pytest.approx((0.27, 1)), "sdv15": pytest.approx((0.447, 0))}
    assert discriminator("0.75\n0.25\n\n1\n0\n", "d.csv", images=2) == ((0.25, 0.75), (0, 1))


@pytest.mark.parametrize(
    ("text", "reported"),
    [("content_id,a\n1,0.1\n3,0.1\n", r"c\.csv:3: content_id must count up: got 3 after 1"),
     ("content_id,a\n1,nan\n", r"c\.csv:2: a must be a finite number")],
)  # fmt: skip
def test_confidences_out_of_order_or_range_are_refused(text: str, reported: str) -> None:
    with pytest.raises(InvalidPublished, match=reported):
        confidences(text, "c.csv")


def test_a_score_that_is_none_is_refused_with_its_line() -> None:
    with pytest.raises(InvalidPublished, match=r"d\.csv:2 must be a number: got 'x'"):
        discriminator("0.5\nx\n", "d.csv", images=1)


def test_the_curve_of_confidences_counts_those_below_and_ends_where_nothing_is_kept() -> None:
    curve = curve_of([0.1, 0.2, 0.2, 0.6], step=0.1)
    assert [point.deferred for point in curve] == [0, 0, 0.25, 0.75, 0.75, 0.75, 0.75, 1]
    assert [point.threshold for point in curve] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]


def test_a_configuration_becomes_a_row_in_ms_and_of_negated_fid() -> None:
    rows = hybrid_configs(HEADER + "0,1,0.1,0.2,0.28,0.58,28.51\n", "h.csv", ("small", "large"))
    assert rows == (PairRow("small", "large", 0.1, 0.2, 580.0, -28.51),)


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("0,2,0.1,0.2,0.28,0.58,28.51", r"h\.csv:2: two of the models 0\.\.1 are needed: got \(0, 2\)"),
        ("1,1,0.1,0.2,0.28,0.58,28.51", "two of the models"),
        ("0,1,1.1,0.2,0.28,0.58,28.51", r"h\.csv:2: router_ratio"),
        ("0,1,0.1,0.2,0.28,-1,28.51", "latency"),
        ("0,1,0.1,0.2,0.28,1,", "fid must be a number: got ''"),
    ],
)
def test_an_impossible_configuration_is_refused_with_its_line(line: str, reported: str) -> None:
    with pytest.raises(InvalidPublished, match=reported):
        hybrid_configs(HEADER + line + "\n", "h.csv", ("small", "large"))


def test_scores_are_by_model_prompt_and_image() -> None:
    text = "a,b\n0.1,0.5\n0.2,0.6\n0.3,0.7\n0.4,0.8\n"
    assert scores(text, "s.csv", images=2) == {"a": ((0.1, 0.2), (0.3, 0.4)), "b": ((0.5, 0.6), (0.7, 0.8))}
    with pytest.raises(InvalidPublished, match=r"s\.csv: a must have a multiple of 4 rows"):
        scores("a\n0.1\n", "s.csv")


def test_a_file_is_read_plain_or_gzip(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress("ü\n".encode("utf-8-sig")))
    assert published_text(tmp_path, "a.csv") == ("x\n", str(tmp_path / "a.csv"))
    assert published_text(tmp_path, "b.csv") == ("ü\n", str(tmp_path / "b.csv.gz"))


def test_a_missing_file_is_named_with_what_is_there(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    with pytest.raises(PochadeError, match=r"no b\.csv or b\.csv\.gz in .*: there is a\.csv"):
        published_text(tmp_path, "b.csv")
    with pytest.raises(PochadeError, match="no such folder"):
        published_text(tmp_path / "nowhere", "b.csv")


@pytest.mark.parametrize("data", [b"\xff\xfe\xfa", b"\x1f\x8b broken"])
def test_a_file_that_is_no_text_is_named(tmp_path: pathlib.Path, data: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(PochadeError, match=r"a\.csv cannot be read as text"):
        published_text(tmp_path, "a.csv")


def test_the_full_files_of_a_folder_replace_what_was_re_typed_of_them(tmp_path: pathlib.Path) -> None:
    (tmp_path / "diffserve_discriminator_sdturbo.csv.gz").write_bytes(gzip.compress(b"0.5\n" * 8))
    (tmp_path / "diffserve_runtimes_sdturbo.csv").write_text(RUNTIMES)
    catalog = published_catalog("diffserve-sdturbo", tmp_path)
    assert {name: variant.latency_ms for name, variant in catalog.variants.items()} == {
        "sd-turbo": {1: 11}, "sd15": {1: 99},
    }  # fmt: skip
    assert dict(catalog.discriminator("efficientnet").deferral)[0.505] == 1
    with pytest.raises(Unknown, match="'tiny'"):
        published_catalog("tiny", tmp_path)


@needs_files
@pytest.mark.parametrize(("demand_rps", "pair", "published_fid", "our_fid"), PUBLISHED_PLANS)
def test_hadis_s_plans_come_out_or_better_of_all_726_rows_too(
    demand_rps: float, pair: tuple[str, str], published_fid: float, our_fid: float
) -> None:
    draft = drafted(seen(16, demand_rps, slo_ms=60_000.0), published_catalog("hadis-l40s", PUBLISHED))
    assert -quality(draft) == pytest.approx(our_fid)
    assert our_fid <= published_fid
    assert (draft.cascades[0].level, draft.cascades[0].next_level) == pair


@needs_files
@pytest.mark.parametrize(("demand_rps", "threshold"), [(24.0, 0.23), (32.0, 0.115)])
def test_diffserve_s_plans_come_out_of_the_full_files_too(demand_rps: float, threshold: float) -> None:
    catalog = published_catalog("diffserve-sdturbo", PUBLISHED)
    draft = diffserve.plan(seen(16, demand_rps, slo_ms=5000.0), catalog, {}, {"overprovision": 1.0})
    assert [cascade.threshold for cascade in draft.cascades] == [threshold]
