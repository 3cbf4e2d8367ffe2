"""An engine, a policy and a feature of a package of one's own: the READMEs' blocks, built, installed and served."""

import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.environments import Environment, make
from tests.integration.served import served
from tests.paths import CATALOGS, ROOT

pytestmark = pytest.mark.broker
PAGES = ("agents/engines/README.md", "planner/policies/README.md", "agents/features/README.md")
BLOCK = re.compile(r"^```\w+\n# ([\w.]+)\n(.*?)^```", re.M | re.S)
ROLES = ("classifier", "router", "worker", "discriminator", "ledger", "planner", "gateway")
SEED = 200

ASKING = """
import io, os, sys
os.environ["NO_PROXY"] = "127.0.0.1"
from PIL import Image
from pochade import Client
with Client(sys.argv[1]) as client:
    end = client.submit("a red heart", seed=int(sys.argv[2])).result(60)
    image = Image.open(io.BytesIO(client.read(end.images[0])))
    print(type(end).__name__, image.getpixel((1, 1)), image.getpixel((0, 0)))
    print(client.submit("a red heart", n=2).result(60).reason)
"""


@pytest.fixture(scope="module")
def extended(
    tmp_path_factory: pytest.TempPathFactory, wheels_of: Callable[..., dict[str, pathlib.Path]]
) -> Environment:
    """Pochade with the package of the pages, in an environment of their own."""
    folder = tmp_path_factory.mktemp("sketches")
    for page in PAGES:
        for name, text in BLOCK.findall((ROOT / page).read_text()):
            (folder / name).write_text(text)
    command = [sys.executable, "-P", "-m", "build", "--no-isolation", "--wheel", "--outdir", folder / "dist", folder]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    wheels = wheels_of("pochade", "pochade-client")
    home = tmp_path_factory.mktemp("extended") / "venv"
    return make(home, [*wheels.values(), *(folder / "dist").glob("*.whl")], ["pochade"])


def test_a_package_s_policy_plans_and_is_named_beside_those_that_ship(extended: Environment) -> None:
    solve = ("plan", "solve", "--catalog", "profile", "--demand", "1", "--workers", "2", "--policy")
    done = extended.run(extended.pochade, *solve, "always-best")
    assert done.returncode == 0, done.stderr
    assert "2 workers of heavy serve all requests" in done.stdout
    assert "Known: always-best, argus," in " ".join(extended.run(extended.pochade, *solve[:2], "--help").stdout.split())
    done = extended.run(extended.pochade, *solve, "always-bets")
    assert (done.returncode, "did you mean 'always-best'?" in done.stderr) == (1, True), done.stderr


def test_a_package_s_engine_policy_and_feature_serve(
    extended: Environment, new_home: Callable[[], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    home = new_home()
    catalog = tmp_path / "sketches.toml"
    levels, judges = (CATALOGS / "profile.toml").read_text().split("[discriminators", 1)
    catalog.write_text(levels.replace('engine = "profile"', 'engine = "sketch"') + "[discriminators" + judges)
    values = {"catalog": str(catalog), "planner.policy": "always-best", "features": "one-image"}
    with served(extended, home, ROLES, values) as running:
        assert (
            extended.said(ASKING, running.gateway, str(SEED))
            == f"Completed {(SEED,) * 3} (0, 0, 0)\neach request gets one image\n"
        )
        shown = extended.run(extended.pochade, *running.options, "plan", "show", "-o", "json")
        assert json.loads(shown.stdout)["policy"] == "always-best", shown.stdout + shown.stderr
