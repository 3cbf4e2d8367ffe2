"""Orders: generated in parts through the engine port, kept, resumed, and judged where that can be done."""

import pathlib
import weakref
from dataclasses import replace

import numpy as np
import pytest

from agents.lab.world import renderer, scenes
from agents.lab.world.styles import BASES, POSTER, style_of
from agents.profiling import profiling
from agents.profiling.generation import orders, pool
from agents.profiling.generation.orders import GeneratedImages, Order, StoredLatents, batch_of, generate_into
from agents.profiling.generation.pool import GenerationPool
from agents.profiling.generation.quality import judge
from agents.profiling.generation.sweeps import nearest, order, refinement_orders, step_shares, steps_to_try, sweep
from agents.profiling.seeded_prompts import SeededPrompts
from agents.world.layout import SIZE
from schemas.errors import PochadeError
from schemas.ids import refinement_seed
from tests.agents.lab.evaluation.catalogs import a_level, an_order


def test_an_order_is_cut_into_parts_that_together_are_the_order() -> None:
    whole = an_order(5, begin=2, drafts=np.arange(5 * 4 * 4 * 3, dtype=np.uint8).reshape(5, 4, 4, 3))
    parts = list(whole.split(2))
    assert [len(part.prompts) for part in parts] == [2, 2, 1]
    assert sum((part.seeds for part in parts), ()) == whole.seeds
    drafts = [part.drafts for part in parts if part.drafts is not None]
    assert (np.concatenate(drafts) == whole.drafts).all()


@pytest.mark.parametrize(
    "other",
    [
        an_order(seeds=(7, 8, 9)),
        an_order(prompts=("a", "b", "c")),
        an_order(variant=a_level(steps=5)),
        an_order(judged_by=""),
        an_order(begin=1, drafts=np.zeros((3, 4, 4, 3), np.uint8)),
        an_order(begin=1, latents=StoredLatents(values=np.zeros((3, 1, 6, 6), np.float16), autoencoder="profile")),
        an_order(keeps_latents=True),
    ],
)
def test_orders_of_other_images_have_another_digest(other: Order) -> None:
    assert other.digest() != an_order().digest() == an_order().digest()


def test_latents_are_kept_beside_the_images_and_another_order_begins_with_them(tmp_path: pathlib.Path) -> None:
    first = GenerationPool(tmp_path).generate({"from noise": an_order(20, keeps_latents=True)})["from noise"]
    stored = first.latents()
    assert stored.values.shape == (20, 1, SIZE // 8, SIZE // 8)
    again = an_order(20, begin=2, latents=stored.at(np.arange(20)[::-1]))
    assert [part.latents.values.shape[0] for part in again.split(16) if part.latents] == [16, 4]
    assert GenerationPool(tmp_path).generate({"again": again})["again"].images().shape == (20, SIZE, SIZE, 3)


def test_an_image_without_a_latent_is_refused_where_latents_are_to_be_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.engines.profile._latent", lambda *_: None)
    with pytest.raises(PochadeError, match="gives no latent of 3 of 3 images"):
        generate_into(an_order(keeps_latents=True), tmp_path / "part.npz")
    generate_into(an_order(), tmp_path / "part.npz")
    assert GeneratedImages.load(tmp_path / "part.npz").quality.shape == (3,)


def test_other_weights_under_the_same_name_give_another_digest(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "unet.safetensors"
    file.write_bytes(b"1")
    asked = an_order(variant=a_level(engine="diffusers", model=str(tmp_path)))
    before = asked.digest()
    file.write_bytes(b"22")
    assert asked.digest() != before


def test_parts_of_the_same_weights_are_found_again_in_another_checkout(tmp_path: pathlib.Path) -> None:
    digests = set()
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "unet.safetensors").write_bytes(b"1")
        digests.add(an_order(variant=a_level(engine="diffusers", model=str(tmp_path / name))).digest())
    assert len(digests) == 1
    elsewhere = [an_order(variant=a_level(engine="diffusers", model=name)).digest() for name in ("x/y", "x/z")]
    assert elsewhere[0] != elsewhere[1]


def test_what_a_model_was_measured_to_take_is_no_part_of_its_images() -> None:
    slow, quick = (a_level(engine="diffusers", model="x/y", latency_ms={1: ms}, quality=ms / 9) for ms in (9.0, 1.0))
    assert an_order(variant=slow).digest() == an_order(variant=quick).digest()


def test_large_images_are_generated_one_a_call() -> None:
    sizes = {size: batch_of(a_level(width=size, height=size)) for size in (48, 256, 1024)}
    assert sizes == {48: 16, 256: 4, 1024: 1}


def test_every_image_is_generated_once_however_often_it_is_asked_for(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated: list[int] = []

    def counting(part: Order, file: pathlib.Path, _keeping: object) -> None:
        generated.append(len(part.prompts))
        generate_into(part, file)

    monkeypatch.setattr(pool, "generate_into", counting)
    monkeypatch.setattr(pool, "_PART", 16)
    asked = {"level": an_order(20)}
    first = GenerationPool(tmp_path).generate(asked)["level"]
    again = GenerationPool(tmp_path).generate(asked)["level"]
    assert generated == [16, 4]
    assert first.images().shape == (20, SIZE, SIZE, 3)
    assert (first.images() == again.images()).all()
    assert len({image.tobytes() for image in first.images()}) == 20


def test_after_an_interruption_only_what_is_missing_is_generated(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_PART", 16)
    asked = {"level": an_order(40)}
    begun: list[Order] = []

    def interrupted(part: Order, file: pathlib.Path, _keeping: object) -> None:
        begun.append(part)
        if len(begun) == 2:
            raise KeyboardInterrupt
        generate_into(part, file)

    monkeypatch.setattr(pool, "generate_into", interrupted)
    with pytest.raises(KeyboardInterrupt):
        GenerationPool(tmp_path).generate(asked)
    GenerationPool(tmp_path).generate(asked)
    assert [part.seeds[0] for part in begun] == [0, 16, 16, 32]


def test_facts_are_told_of_images_of_the_world_and_of_nothing_else() -> None:
    rng = np.random.default_rng(3)
    scene = scenes.sample(rng, 2)
    true = renderer.render(scene, rng)[None]
    marks = judge("facts", a_level(), [scene.caption], true)
    assert marks.quality.tolist() == [1.0]
    assert marks.facts.tolist() == [1.0]
    assert not marks.missed.any()
    for prompt, images in (("an old lighthouse", true), (scene.caption, true.repeat(2, 1).repeat(2, 2))):
        marks = judge("facts", a_level(), [prompt], images)
        assert np.isnan(marks.quality[0])
        assert np.isnan(marks.facts[0])
    assert np.isnan(judge("", a_level(), [scene.caption], true)[0][0])


def test_an_image_is_judged_by_the_caption_in_its_prompt(tmp_path: pathlib.Path) -> None:
    prompts = ("a red heart, dragon city", "misty blue star")
    asked = SeededPrompts(prompts=prompts, seeds=(1, 2), captions=("a red heart", "a blue star"))
    level = order(a_level(), asked)
    over = refinement_orders("over", level, np.zeros((2, SIZE, SIZE, 3), np.uint8), (1,))
    found = GenerationPool(tmp_path).generate(
        {"level": level, "bare": order(a_level(), replace(asked, captions=())), **over}
    )
    assert np.isnan(found["bare"].quality).all()
    for name in ("level", "over, from step 1"):
        assert np.isfinite(found[name].quality).all()
        assert (found[name].missed.any(1) == (found[name].quality < 1)).all()
    assert asked.at(np.array([1])).stated == asked.with_fresh_noise().stated[1:] == ("a blue star",)


def test_a_model_in_a_style_is_judged_in_that_style() -> None:
    rng = np.random.default_rng(4)
    scene = scenes.sample(rng, 3)
    chalk = a_level(engine="diffusers", model="models/chalk")
    assert style_of(chalk) is BASES["chalk"]
    assert style_of(a_level(engine="diffusers", model="models/heavy")) is POSTER
    image = renderer.render(scene, rng, BASES["chalk"])[None]
    assert judge("facts", chalk, [scene.caption], image)[1].tolist() == [1.0]


@pytest.mark.parametrize(("steps", "tried"), [(1, ()), (2, (1,)), (8, (1, 2, 3, 4, 5, 6, 7)), (50, 7)])
def test_the_steps_tried_are_spread_over_the_models_steps(steps: int, tried: int | tuple[int, ...]) -> None:
    found = steps_to_try(steps)
    assert found == tried if isinstance(tried, tuple) else (len(found), found[0], found[-1]) == (tried, 1, steps - 1)


def test_a_call_costs_less_the_later_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "ENOUGH_S", 0.0)
    found = step_shares(a_level(latency_ms={1: 100.0, 16: 130.0}), [1, 3], threads=1, budget_s=0.1, keeping=None)
    assert found[3] < found[1] < 1.5  # of 0.25 and 0.75, on however busy a machine
    assert found[3] < 0.75


def test_a_sweep_begins_with_the_drafts(tmp_path: pathlib.Path) -> None:
    level = a_level()
    asked = SeededPrompts(prompts=("a red heart", "a blue star"), seeds=(1, 2))
    blank = order(level, asked)
    drafts = np.zeros((2, SIZE, SIZE, 3), np.uint8)
    orders = {"blank": blank, **refinement_orders("over", blank, drafts, [1, 3])}
    generated = GenerationPool(tmp_path).generate(orders)
    found = sweep("over", {1: 0.8, 3: 0.3}, generated, generated["blank"], np.arange(2))
    assert (found.k.tolist(), found.cost_share.tolist()) == ([1, 3], [0.8, 0.3])
    over, begun_blank = (generated[name].images() for name in ("over, from step 1", "blank"))
    assert (over != begun_blank).any(), "the card says that a draft was refined"


def test_refinement_takes_the_noise_that_a_worker_would_take() -> None:
    asked = SeededPrompts(prompts=("a",), seeds=(5,))
    assert asked.with_fresh_noise().seeds != asked.seeds
    assert asked.with_fresh_noise().seeds == (refinement_seed(5, 1),)


def test_the_nearest_neighbour_is_the_most_similar_one() -> None:
    stored = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert nearest(np.array([[0.6, 0.8], [0.8, 0.6]]), stored).tolist() == [1, 0]


def test_the_two_processes_of_a_pool_generate_what_one_would(tmp_path: pathlib.Path) -> None:
    asked = {"level": an_order(70)}
    alone = GenerationPool(tmp_path / "1").generate(asked)["level"]
    together = GenerationPool(tmp_path / "2", jobs=2).generate(asked)["level"]
    assert len(together.files) == 2
    assert (alone.images() == together.images()).all()


def test_stored_images_are_read_part_by_part_and_rows_come_in_their_order(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_PART", 16)
    level = GenerationPool(tmp_path).generate({"level": an_order(40)})["level"]
    whole, stored = level.images(), level.stored()
    assert [len(part) for part in stored.parts()] == [16, 16, 8]
    assert (np.concatenate([part.read() for part in stored.parts()]) == whole).all()
    rows = np.array([39, 0, 17, 16, 0])
    assert (stored.at(rows).read() == whole[rows]).all()
    assert (stored.at(rows).at(slice(1, 3)).read() == whole[[0, 17]]).all()


def test_an_order_begun_with_stored_images_is_the_one_begun_with_the_images(tmp_path: pathlib.Path) -> None:
    level = GenerationPool(tmp_path).generate({"level": an_order(3)})["level"]
    begun = an_order(3, begin=1, drafts=level.images())
    from_files = an_order(3, begin=1, drafts=level.stored())
    assert from_files.digest() == begun.digest()
    assert [part.digest() for part in from_files.split(2)] == [part.digest() for part in begun.split(2)]
    generate_into(begun, tmp_path / "a.npz")
    generate_into(from_files, tmp_path / "b.npz")
    found, same = (GeneratedImages.load(tmp_path / name).images() for name in ("a.npz", "b.npz"))
    assert (found == same).all()


def test_of_a_levels_images_one_part_is_in_memory_at_a_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_PART", 16)
    stored = GenerationPool(tmp_path).generate({"level": an_order(80)})["level"].stored()
    read, alive = orders._member, list[weakref.ref[np.ndarray]]()
    most = 0

    def watched(file: pathlib.Path, name: str) -> np.ndarray:
        nonlocal most
        images = read(file, name).copy()  # which owns its memory
        alive.append(weakref.ref(images))
        most = max(most, sum(each() is not None for each in alive))
        return images

    monkeypatch.setattr(orders, "_member", watched)
    scattered = stored.at(np.arange(80).reshape(5, 16).T.reshape(-1))  # neighbours lie in different files
    for part in (*stored.parts(), scattered.at(slice(0, 16))):
        part.read()
    assert len(alive) == 10
    assert most <= 2, "the one that is read while the one before goes"
