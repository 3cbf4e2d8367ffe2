"""Features stand beside the roles: the product serves without each of them, and refuses what would need it."""

import io
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from agents.in_process.deployment import InProcess
from agents.runtime.assembly import assemble
from agents.runtime.features import check_settings, rights_of, stages_of
from agents.worker.images import SafeImage
from agents.worker.stages import Stage, Stages
from planner.catalog.model import Catalog
from planner.serving.decisions import INVALID, Rejection
from planner.serving.features import FEATURES, Feature, checks_of
from planner.serving.routing.routing import Case, RouterCheck
from replay.simulation.results.figures import figures_of
from replay.simulation.session import simulate
from replay.traces.trace import Overrides
from schemas import extensions
from schemas.errors import PochadeError, Unknown
from schemas.messages import GenerateOptions, Result, Status
from streams.clock import now_ms
from streams.settings import InvalidSettings, load
from tests.builders import a_catalog, a_request
from tests.memory_store import MemoryImageStore
from tests.paths import ROOT
from tests.replay.simulation.runs import a_setup, arrivals, asking

SECTIONS = {"safety": {"checker": "mushroom"}, "tenants": {"acme": {"rate_rps": 1}}}


class Sepia(Stage):
    """Paints each image in one colour."""

    def check(self, images: Any, tenant: str) -> list[SafeImage]:  # noqa: ARG002  the port's names
        return [each._replace(image=Image.new("RGB", each.image.size, (112, 66, 20))) for each in images]


def one_image(_catalog: Catalog) -> list[RouterCheck]:
    """A check that lets requests of one image pass."""

    def check(case: Case) -> Rejection | None:
        if case.request.options.n == 1:
            return None
        return Rejection(Status.REJECTED, INVALID, "one image a request", param="n")

    return [check]


@pytest.fixture
def without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Leave one feature out, as where its code is not installed."""
    monkeypatch.delitem(FEATURES._shipped, request.param)
    return str(request.param)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a feature, as a package does."""
    entry = SimpleNamespace(load=lambda: Feature(checks=one_image, worker=lambda _opening: Sepia()), dist=None)
    monkeypatch.setattr(extensions, "_installed", lambda _group: extensions.Installed({"own": (entry,)}, ()))  # type: ignore[dict-item]
    return "own"


async def two_images(deployment: InProcess) -> list[Result]:
    ways = (("kept", "a heart 0.9"), ("escalated", "a heart 0.1"))
    return [
        await deployment.generate(a_request(request_id=name, prompt=prompt, created_ms=now_ms()))
        for name, prompt in ways
    ]


@pytest.mark.parametrize("without", sorted(FEATURES), indirect=True)
def test_images_are_served_and_escalated_without_a_feature(without: str, in_process: Callable[..., Any]) -> None:
    assert without not in FEATURES
    kept, escalated = in_process(two_images)
    assert [each.status for each in (kept, escalated)] == [Status.COMPLETED] * 2
    assert '"heavy"' in escalated.path


@pytest.mark.parametrize("without", sorted(SECTIONS), indirect=True)
def test_settings_of_a_feature_that_is_missing_let_nothing_start(without: str) -> None:
    settings = load({without: SECTIONS[without]})
    with pytest.raises(InvalidSettings, match=rf"setting {without}: unknown, as this .* lacks the feature '{without}'"):
        check_settings(settings)
    with pytest.raises(InvalidSettings, match="lacks the feature"), assemble(settings, frozenset({"ledger"})):
        pass


def test_settings_of_a_feature_that_is_missing_let_nothing_start_in_one_process(
    monkeypatch: pytest.MonkeyPatch, in_process: Callable[..., Any]
) -> None:
    monkeypatch.delitem(FEATURES._shipped, "safety")
    with pytest.raises(InvalidSettings, match="lacks the feature 'safety'"):
        in_process(two_images, settings=load({"safety": SECTIONS["safety"]}))


def test_settings_of_features_that_are_here_are_accepted() -> None:
    check_settings(load(SECTIONS))


def test_a_feature_of_one_s_own_checks_requests_and_images_once_it_is_named(
    added: str, in_process: Callable[..., Any]
) -> None:
    store = MemoryImageStore()

    async def story(deployment: InProcess) -> list[Result]:
        asked = [
            a_request(request_id=f"of-{n}", prompt="a heart 0.9", created_ms=now_ms(), options=GenerateOptions(n=n))
            for n in (2, 1)
        ]
        return [await deployment.generate(request) for request in asked]

    two, one = in_process(story, settings=load({"features": [added]}), store=store)
    assert (two.status, two.code, two.reason) == (Status.REJECTED, INVALID, "one image a request")
    with Image.open(io.BytesIO(store.get(one.image_uri))) as image:
        assert image.getpixel((0, 0)) == (112, 66, 20)
    two, _ = in_process(story)
    assert two.status is Status.COMPLETED


def test_a_feature_that_nobody_has_is_named_with_the_nearest() -> None:
    with pytest.raises(Unknown, match="did you mean 'safety'"):
        check_settings(load({"features": ["saftey"]}))


def test_two_features_with_rights_of_tenants_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FEATURES._shipped, "others", Feature(rights=lambda _settings: None))
    with pytest.raises(InvalidSettings, match="two features have rights"):
        rights_of(load({}))


def test_a_check_that_ships_is_asked_unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(checks_of([], a_catalog()))
    monkeypatch.setitem(FEATURES._shipped, "one-image", Feature(checks=one_image))
    assert len(checks_of([], a_catalog())) == before + 1


def test_stages_are_asked_in_order_and_closed() -> None:
    closed = list[str]()

    class Marks(Stage):
        def __init__(self, name: str) -> None:
            self._name = name

        def check(self, images: Any, tenant: str) -> list[SafeImage]:  # noqa: ARG002  the port's names
            return [each._replace(safety=each.safety + self._name) for each in images]

        def close(self) -> None:
            closed.append(self._name)

    stages = Stages([Marks("a"), Marks("b")])
    assert [each.safety for each in stages.check([Image.new("RGB", (4, 4))], "anybody")] == ["ab"]
    stages.close()
    assert closed == ["a", "b"]


def test_a_checker_that_cannot_be_opened_lets_no_worker_start() -> None:
    with pytest.raises(PochadeError, match="holds no config"):
        stages_of(load({"safety": {"checker": "no-such"}}), MemoryImageStore(), lambda _record: None)


def test_the_simulated_router_asks_the_same_checks(added: str) -> None:
    wishes = asking(arrivals(10, 100), [Overrides(), Overrides(options=GenerateOptions(n=2))])
    own, plain = (simulate(a_setup(features=named), wishes, 1, lambda _n: None)[0] for named in ((added,), ()))
    assert figures_of(own)["shed"] == figures_of(plain)["shed"] + 50 == 50


def test_a_simulated_check_sees_the_one_tenant_of_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(case: Case) -> Rejection | None:
        return Rejection(Status.REJECTED, INVALID, "not here") if case.request.tenant == "acme" else None

    monkeypatch.setitem(FEATURES._shipped, "own", Feature(checks=lambda _catalog: [check]))
    wishes = asking(arrivals(10, 40), [Overrides(tenant="acme")])
    (ran,) = simulate(a_setup(), wishes, 1, lambda _n: None)
    assert figures_of(ran)["shed"] == 40


def test_every_module_of_a_feature_is_in_the_table() -> None:
    modules = {path.stem for path in (ROOT / "agents" / "features").glob("*.py")} - {"__init__"}
    assert modules == set(FEATURES)


def test_a_role_loads_no_part_that_it_does_not_open() -> None:
    script = (
        "import sys; from agents.runtime.features import check_settings, rights_of; from streams.settings import load; "
        "check_settings(load()); rights_of(load()); "
        "print([name for name in sys.modules if name.startswith(('agents.features.', 'agents.worker'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "['agents.features.tenants']"
