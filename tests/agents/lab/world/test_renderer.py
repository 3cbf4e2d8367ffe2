"""Pictures, styles and silhouettes."""

import numpy as np
import pytest

from agents.lab.world import facts, renderer, scenes
from agents.lab.world.patterns import JITTER, sides
from agents.lab.world.styles import ADAPTERS, BASES, POSTER, STYLES, Style
from agents.world.layout import CENTRES, SIZE
from tests.agents.lab.world.drawings import picture_of, scene_of

MANY = "three red hearts above three blue fish on the grass"


def test_the_same_seed_gives_the_same_pictures() -> None:
    def draw() -> list[bytes]:
        rng = np.random.default_rng(3)
        return [renderer.render(scenes.sample(rng), rng).tobytes() for _ in range(20)]

    assert draw() == draw()


def test_seeds_move_things_by_no_more_than_the_jitter() -> None:
    drawn = {picture_of("a black circle", seed=seed).tobytes() for seed in range(40)}
    assert len(drawn) == (2 * JITTER + 1) ** 2


def test_a_ruled_out_colour_is_painted_in_several_others() -> None:
    drawn = [picture_of("a circle that is not red", seed=seed) for seed in range(40)]
    middles = {tuple(picture[CENTRES["C"]]) for picture in drawn}
    assert len(middles) >= 5
    assert tuple(picture_of("a red circle")[CENTRES["C"]]) not in middles


@pytest.mark.parametrize("size", ["", "small", "huge"])
def test_a_thing_covers_as_many_pixels_as_its_size_says(size: str) -> None:
    picture = picture_of(f"a {size} black square".replace("  ", " ")).astype(int)
    rows = (np.abs(picture - renderer.background(None)).max(-1) > 60).any(1).sum()
    assert rows == pytest.approx(sides("C")[size], abs=4)


@pytest.mark.parametrize("style", STYLES.values(), ids=lambda style: style.name)
def test_the_checker_reads_every_style(style: Style) -> None:
    rng = np.random.default_rng(11)
    drawn = [scenes.sample(rng) for _ in range(60)]
    held = [facts.check(scene.caption, renderer.render(scene, rng, style), style).all_hold for scene in drawn]
    assert np.mean(held) >= 0.98


@pytest.mark.parametrize("style", [s for s in STYLES.values() if s is not POSTER], ids=lambda style: style.name)
def test_every_style_looks_unlike_the_poster(style: Style) -> None:
    change = np.abs(picture_of(MANY, style).astype(float) - picture_of(MANY)).mean()
    assert change > 2


def test_styles_are_three_bases_and_six_adapters_and_no_two_draw_alike() -> None:
    assert (len(BASES), len(ADAPTERS)) == (3, 6)
    assert len({picture_of(MANY, style).tobytes() for style in STYLES.values()}) == 9


def test_silhouettes_are_white_where_things_are_and_black_elsewhere() -> None:
    scene = scene_of("a red square above a blue circle at night")
    shown = renderer.silhouettes(scene)
    assert shown.shape == (SIZE, SIZE, 3)
    assert shown.dtype == np.uint8
    assert (shown[CENTRES["T"]] == 255).all()
    assert (shown[CENTRES["B"]] == 255).all()
    assert (shown[0] == 0).all()
    assert (shown[..., 0] == shown[..., 1]).all()


def test_silhouettes_tell_shape_size_and_place_but_no_colour_and_no_background() -> None:
    def shown(caption: str) -> bytes:
        return renderer.silhouettes(scene_of(caption)).tobytes()

    assert shown("a red heart at night") == shown("a heart that is not blue on the grass")
    assert len({shown(c) for c in ("a red heart", "a red star", "a small red heart", "a red heart on the left")}) == 4
