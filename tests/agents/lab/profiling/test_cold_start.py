"""The start of a worker is broken down into phases that add up to the time of its first image."""

import json
import pathlib
import time
from collections.abc import Iterable

import pytest

from agents.lab.profiling.cold_start import child
from streams.shipped import INFRA
from streams.weights.manifest import describe
from streams.weights.remotes.folder import FolderRemote
from streams.weights.volume import Volume

PHASES = ("start", "import", "read", "initialise", "warm", "generate")


def added(phases: dict[str, float], names: Iterable[str]) -> float:
    return sum(phases[name] for name in names)


def test_a_start_is_told_by_phases_that_add_up_to_the_first_image(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = INFRA / "models" / "light"
    listed = describe("base:light", model)
    Volume(tmp_path, listed.bytes).fetch(FolderRemote(model), listed)
    began_ns = time.monotonic_ns()
    child(["tiny", "light", str(tmp_path), listed.digest, "", str(began_ns)])
    took_s = (time.monotonic_ns() - began_ns) / 1e9
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    wall = told["wall"]
    assert tuple(wall) == (*PHASES, "first_image")
    assert added(wall, PHASES) == pytest.approx(wall["first_image"])
    assert all(wall[name] > 0 for name in ("start", "import", "read", "initialise", "generate"))
    assert wall["first_image"] + wall["generate"] <= took_s, "two images were generated"
    assert told["cpu"].keys() == wall.keys()
