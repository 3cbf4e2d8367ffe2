"""What a process of some roles loads, and when."""

import ast
import contextlib
import inspect
import subprocess
import sys
from types import SimpleNamespace

import pytest

from agents.classifier import judges
from agents.commands.serve import ROLES
from agents.discriminator import scorers
from agents.runtime import assembly, following
from streams import catalogs
from streams.observing.health import Health
from streams.settings import load
from tests.memory_kafka import MemoryRecordProducer

# What no role loads at its start, on a catalog whose judges load no model, and with the stores of a plain deployment.
NOBODY = {
    "accelerate", "agents.lab", "boto3", "botocore", "diffusers", "grpc", "httpx", "matplotlib", "pandas", "peft",
    "pymilvus", "replay", "scipy", "spacy", "streams.vectors.milvus", "tomlkit", "torch", "transformers",
}  # fmt: skip
SOLVERS = {"highspy", "planner.policies.joint", "planner.solvers", "pulp"}
FAUST = {"aiohttp", "aiokafka", "faust"}  # Faust needs aiohttp
ROUTING = {"agents.router"}
LOADS_NOT = {
    "classifier": SOLVERS | ROUTING | {"PIL", "agents.engines", "jinja2", "starlette"},
    "router": SOLVERS | {"PIL", "numpy", "agents.engines", "jinja2", "starlette"},
    "discriminator": SOLVERS | {"agents.engines", "jinja2", "starlette"},
    "ledger": SOLVERS | FAUST | ROUTING | {"PIL", "numpy", "agents.engines", "agents.runtime.views", "starlette"},
    "planner": FAUST | ROUTING | {"PIL", "agents.engines", "jinja2", "starlette"},
    "indexer": SOLVERS | FAUST | ROUTING | {"agents.engines", "jinja2", "starlette"},
    "gateway": SOLVERS | FAUST | ROUTING | {"numpy", "agents.engines", "jinja2"},
    "console": SOLVERS | FAUST | ROUTING | {"agents.engines"},
    "worker": SOLVERS | FAUST | ROUTING | {"planner.policies", "jinja2", "starlette"},
}
OPENED = {  # what a role's function calls besides, which imports more
    "classifier": "from agents.classifier.judges import open_judge; open_judge(catalog).classify('a red heart')",
    "discriminator": "from agents.discriminator.scorers import open_scorers; open_scorers(catalog)",
    "worker": "from agents.engines import check_models; check_models(catalog, '')",
}
BESIDE = {"router": ["_hosts", "_router", "_beside_router"], "classifier": ["_hosts", "_classifier"],
          "discriminator": ["_hosts", "_discriminator"]}  # fmt: skip


def test_every_role_is_looked_at() -> None:
    assert LOADS_NOT.keys() == set(ROLES) == assembly.STREAM_ROLES.keys() | assembly.THREADED_ROLES.keys()


@pytest.mark.parametrize("role", LOADS_NOT)
def test_a_role_loads_at_its_start_only_what_it_needs(role: str) -> None:
    functions = {node.name: node for node in ast.parse(inspect.getsource(assembly)).body if hasattr(node, "name")}
    read = [name for own in BESIDE.get(role, [f"_{role}"]) for name in _imported(functions[own])]
    assert len(read) > 1, "the role's function imports what the role needs"
    code = [
        "import sys, importlib",
        "from streams import catalogs",
        "catalog = catalogs.load('profile')",
        f"[importlib.import_module(name) for name in {['agents.commands.serve', *read]!r}]",
        OPENED.get(role, ""),
        f"found = {sorted(NOBODY | LOADS_NOT[role])!r}",
        "print([name for name in found if name in sys.modules])",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(code)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def _imported(function: ast.AST) -> list[str]:
    return [
        "agents.runtime.assembly",
        *(n.module for n in ast.walk(function) if isinstance(n, ast.ImportFrom) and n.module),
    ]


@pytest.mark.parametrize("role", ["classifier", "discriminator"])
def test_models_are_loaded_before_the_broker_is_asked_as_it_may_be_away_meanwhile(
    monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    # found by chaos: a classifier restarted while the broker was away loaded its words only when it was back, for 5 s
    done: list[str] = []
    for name in ("FollowedPlans", "FollowedEnds", "FollowedInFlight", "FollowedFleet"):
        view = SimpleNamespace(start=lambda: done.append("view"), close=lambda: None)
        monkeypatch.setattr(following, name, lambda *_args, view=view: view)
    monkeypatch.setattr(assembly, "check_access", lambda *_args: None)
    monkeypatch.setattr(assembly.deletions, "report", lambda *_args: None)  # it asks a broker that is away
    known = SimpleNamespace(start=lambda: done.append("schemas"), close=lambda: None)
    monkeypatch.setattr(assembly, "KnownSchemas", lambda _settings: known)
    monkeypatch.setattr(assembly, "create_topics", lambda *_args: done.append("topics"))
    monkeypatch.setattr(judges, "open_judge", lambda _catalog: done.append("models"))
    monkeypatch.setattr(scorers, "open_scorers", lambda _catalog: done.append("models"))
    settings, levels = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), catalogs.load("profile")
    with contextlib.ExitStack() as stack:
        views = assembly.Views(settings, role, levels, MemoryRecordProducer(), stack)
        process = assembly.Process(Health({role}))
        assert assembly.STREAM_ROLES[role](
            assembly.Opening(settings, levels, views, MemoryRecordProducer(), stack, process)  # type: ignore[arg-type]
        )
    assert done[:4] == ["models", "topics", "schemas", "view"]
    assert done.count("topics") == 1


def test_all_views_read_side_by_side_and_the_plans_are_waited_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def view(name: str) -> SimpleNamespace:
        return SimpleNamespace(
            start=lambda: done.append(f"start {name}"),
            wait_caught_up=lambda: done.append(f"wait for {name}"),
            close=lambda: done.append(f"close {name}"),
        )

    for name in ("FollowedFleet", "FollowedEnds", "FollowedPlans"):
        monkeypatch.setattr(following, name, lambda *_args, name=name: view(name))
    monkeypatch.setattr(assembly.Views, "need_topics", lambda _self: None)
    settings, levels = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), catalogs.load("profile")
    with contextlib.ExitStack() as stack:
        views = assembly.Views(settings, "router", levels, MemoryRecordProducer(), stack)
        assert views.fleet
        assert views.ended
        assert views.plans
        views.wait_caught_up()
        assert done == [
            "start FollowedFleet", "start FollowedEnds", "start FollowedPlans",
            "wait for FollowedPlans", "wait for FollowedFleet", "wait for FollowedEnds",
        ]  # fmt: skip
        done.clear()
    assert done == ["close FollowedPlans", "close FollowedEnds", "close FollowedFleet"]
