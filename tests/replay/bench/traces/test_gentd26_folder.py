"""One trace of GenTD26's two request files, drawn."""

import itertools
import pathlib

import numpy as np
import pytest

from replay.bench.traces.gentd26_folder import Drawing, draw_trace
from replay.traces import InvalidTrace, Trace
from streams.catalogs import load

GENTD26 = (
    "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,negative_prompt_length,"
    "num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora"
)
UNTIMED = "exec_time_seconds,num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,lora_args"
GAPS_S = (10, 1000, 10, 100_000, 10)


def processed(*requests: tuple[str, list[tuple[str, float]]]) -> str:
    """The file without times; each request: its base, its LoRAs with their scales."""
    lines = [UNTIMED]
    for base, loras in requests:
        args = [{"modelVersionId": name, "scale": scale} for name, scale in loras]
        lines.append(f'22.0,4.0,30.0,{base},"{args}"')
    return "\n".join(lines) + "\n"


def timed(*requests: tuple[str, str]) -> str:
    """The file with times, GAPS_S apart in turn; each request: its user, its base."""
    seconds = itertools.accumulate(itertools.cycle(GAPS_S), initial=0)
    lines = [GENTD26]
    for (user, base), at_s in zip(requests, seconds, strict=False):
        at = np.datetime64("2024-11-15 16:00:00") + np.timedelta64(at_s, "s")
        lines.append(f"{str(at).replace('T', ' ')},TXT_2_IMG,SUCCEED,32.0,{user},63.0,26.0,1.0,30.0,{base},0")
    return "\n".join(lines) + "\n"


def folder_of(path: pathlib.Path, untimed: str, with_times: str) -> pathlib.Path:
    """A folder with both files, whose names say nothing, and one more."""
    (path / "a.csv").write_text(untimed)
    (path / "b.csv").write_text(with_times)
    (path / "c.csv").write_text("timestamp_anon,value,container_ip\n1662859290.0,2639.0,aa\n")
    return path


REQUESTS = (
    ("few", []), ("much", [("y", 1.0)]), ("much", [("x", 0.5), ("y", 1.0)]),
    ("much", []), ("few", [("y", 0.8)]), ("much", []),
)  # fmt: skip
USERS = (
    *(("ann", "M0"), ("bob", "M1"), ("ann", "M0"), ("eve", "M0")),
    *(("bob", "M1"), ("eve", "M0"), ("dan", "M2"), ("eve", "M0")),
)


def drawn(tmp_path: pathlib.Path, **asked: object) -> Trace:
    folder = folder_of(tmp_path, processed(*REQUESTS), timed(*USERS))
    return draw_trace(folder, Drawing(**asked))[0]  # type: ignore[arg-type]


def test_order_bases_and_loras_are_those_of_the_file_that_names_them_by_their_rank(tmp_path: pathlib.Path) -> None:
    options = [row.wish.options for row in drawn(tmp_path).rows()]
    assert [each.model for each in options] == ["base-001", "base-000", "base-000", "base-000", "base-001", "base-000"]
    assert [each.adapters for each in options] == [
        (), ("lora-000",), ("lora-000", "lora-001"), (), ("lora-000",), (),
    ]  # fmt: skip
    assert [each.adapter_weights for each in options] == [(), (), (1.0, 0.5), (), (0.8,), ()]
    assert {(each.n, each.steps) for each in options} == {(4, 30)}


def test_times_are_the_gaps_of_the_other_file_in_their_order_over_again(tmp_path: pathlib.Path) -> None:
    folder = folder_of(tmp_path, processed(*REQUESTS * 3), timed(*USERS))
    gaps_s = np.diff(draw_trace(folder, Drawing())[0].arrival_ms) / 1000
    found = [min(GAPS_S, key=lambda gap: abs(gap - seconds)) for seconds in gaps_s.tolist()]
    assert np.abs(gaps_s - found).max() <= 1
    there = [GAPS_S[place % len(GAPS_S)] for place in range(len(USERS) - 1)]
    assert any(found == [there[(first + n) % len(there)] for n in range(len(found))] for first in range(len(there)))


def test_a_request_has_a_user_of_the_base_of_equal_rank_and_their_runs_stay_runs(tmp_path: pathlib.Path) -> None:
    rows = list(drawn(tmp_path).rows())
    of_most_popular = [row.wish.tenant for row in rows if row.wish.options.model == "base-000"]
    there = ["ann", "ann", "eve", "eve", "eve"]
    assert any(of_most_popular == [there[(first + n) % 5] for n in range(4)] for first in range(5))
    assert {row.wish.tenant for row in rows if row.wish.options.model == "base-001"} == {"bob"}


def test_equal_seeds_draw_equal_traces_and_another_seed_another(tmp_path: pathlib.Path) -> None:
    first, again = drawn(tmp_path), drawn(tmp_path)
    assert first.arrival_ms.tolist() == again.arrival_ms.tolist()
    assert list(first.rows()) == list(again.rows())
    others = [drawn(tmp_path, seed=seed).arrival_ms.tolist() for seed in range(1, 6)]
    assert len({tuple(times) for times in others}) > 1


def test_no_request_has_a_control_unless_a_share_is_asked_for(tmp_path: pathlib.Path) -> None:
    assert not any(row.wish.options.controls for row in drawn(tmp_path).rows())
    folder = folder_of(tmp_path, processed(*REQUESTS * 100), timed(*USERS))
    options = [row.wish.options for row in draw_trace(folder, Drawing(control_share=0.25))[0].rows()]
    controls = [each.controls[0] for each in options if each.controls]
    assert 0.2 < len(controls) / len(options) < 0.3
    assert set(controls) == {"control-000", "control-001"}  # as many as there are LoRAs, and as skewed
    assert controls.count("control-000") > controls.count("control-001")
    assert all(len(each.control_images) == len(each.controls) for each in options)


def test_a_folder_without_one_of_the_files_says_which_and_what_to_give(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.csv").write_text(processed(*REQUESTS))
    with pytest.raises(
        InvalidTrace, match=r"one file with the times of requests: got none; give the folder of GenTD26"
    ):
        draw_trace(tmp_path, Drawing())


def test_a_line_that_cannot_be_read_is_an_error_or_counted(tmp_path: pathlib.Path) -> None:
    folder = folder_of(tmp_path, processed(*REQUESTS) + "22.0,4.0,30.0,few,seven\n", timed(*USERS))
    with pytest.raises(InvalidTrace, match=r"a.csv:8: lora_args is not a list"):
        draw_trace(folder, Drawing())
    assert draw_trace(folder, Drawing(), is_lenient=True)[1]["skipped"] == {"not LoRAs": 1}


def test_how_a_trace_was_made_is_returned_beside_it(tmp_path: pathlib.Path) -> None:
    folder = folder_of(tmp_path, processed(*REQUESTS), timed(*USERS))
    made = draw_trace(folder, Drawing(seed=3, control_share=1.0))[1]
    assert made["drawn"]["seed"] == 3
    assert made["made_from"] == {"components": "a.csv", "times_and_users": "b.csv"}


def test_the_catalog_that_ships_has_every_name_of_such_a_trace(tmp_path: pathlib.Path) -> None:
    variant = load("genai2026").level("image")
    for row in drawn(tmp_path, control_share=1.0).rows():
        options = row.wish.options
        assert options.model in variant.bases
        assert set(options.adapters) <= set(variant.adapters)
        assert set(options.controls) <= set(variant.controls)


def test_a_stretch_of_the_file_keeps_the_names_of_the_whole(tmp_path: pathlib.Path) -> None:
    options = [row.wish.options for row in drawn(tmp_path, first=3, limit=2).rows()]
    assert [(each.model, each.adapters) for each in options] == [("base-000", ()), ("base-001", ("lora-000",))]
    with pytest.raises(InvalidTrace, match="has 6 requests: none from 6 on"):
        drawn(tmp_path, first=6)


@pytest.mark.parametrize("loras", ["[1", "5", "[{}]", "[5]", "{'a': 1}", "f()", "[" * 1000])
def test_loras_that_are_no_list_are_reported(tmp_path: pathlib.Path, loras: str) -> None:
    folder = folder_of(tmp_path, f'{UNTIMED}\n22,1,30,m,"{loras}"\n', timed(*USERS))
    with pytest.raises(InvalidTrace, match=r"a\.csv:2: lora_args is not a list"):
        draw_trace(folder, Drawing())
