"""`pochade try` generates images without a broker."""

import pathlib

from click.testing import CliRunner
from PIL import Image

from streams.cli import main


def tried(home: pathlib.Path, *words: str) -> tuple[int, str]:
    ended = CliRunner().invoke(main, ["--set", f"home={home / 'home'}", "try", *words])
    return ended.exit_code, ended.output


def test_each_prompt_becomes_an_image_in_a_file(tmp_path: pathlib.Path) -> None:
    asked = ("A red heart", "a star", "--catalog", "profile", "--engine", "profile", "--out", str(tmp_path / "made"))
    code, said = tried(tmp_path, *asked)
    assert (code, said.count("COMPLETED")) == (0, 2), said
    heart, star = sorted((tmp_path / "made").glob("*.png"))
    assert heart.name.startswith("a-red-heart-")
    assert star.name.startswith("a-star-")
    with Image.open(heart) as image:
        assert image.width > 0


def test_a_request_that_is_not_allowed_is_refused_before_anything_is_loaded(tmp_path: pathlib.Path) -> None:
    code, said = tried(tmp_path, "", "--catalog", "profile", "--engine", "profile")
    assert code == 2
    assert "nothing was generated" in said


def test_a_request_that_does_not_complete_is_told_with_its_reason(tmp_path: pathlib.Path) -> None:
    asked = ("a star", "--catalog", "profile", "--engine", "profile", "--model", "nobody", "--out", str(tmp_path))
    code, said = tried(tmp_path, *asked)
    assert code == 1
    assert said.startswith("REJECTED")
    assert not list(tmp_path.glob("*.png"))


def test_a_policy_or_engine_that_is_not_known_is_refused_at_once(tmp_path: pathlib.Path) -> None:
    for option, known in (("--policy", "joint"), ("--engine", "diffusers")):
        code, said = tried(tmp_path, "a star", "--catalog", "profile", option, "nobody")
        assert code != 0
        assert known in said


def test_what_does_not_end_in_time_is_an_error_that_says_what_it_waits_for(tmp_path: pathlib.Path) -> None:
    asked = ("a star", "--catalog", "profile", "--engine", "profile", "--timeout", "0.1")
    code, said = tried(tmp_path, *asked)
    assert code != 0
    assert "not all have a result after 0.1 s" in said


def test_what_a_level_does_not_honour_is_said_beside_the_end(tmp_path: pathlib.Path) -> None:
    asked = ("a star", "--catalog", "profile", "--engine", "profile", "--steps", "77", "--out", str(tmp_path))
    code, said = tried(tmp_path, *asked)
    assert code == 0
    assert "; overridden: steps: 77 -> " in said
