"""What a process of some roles loads, and when."""

import contextlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from agents.classifier import judges
from agents.discriminator import scorers
from agents.runtime import assembly
from streams import catalogs
from streams.health import Health
from streams.kafka.memory import MemoryRecordProducer
from streams.settings import load


def test_roles_with_a_thread_of_their_own_load_no_faust_and_no_http_client() -> None:
    code = (
        "import sys, agents.runtime.assembly, agents.ledger.role, agents.planner.loop, agents.worker.role; "
        "print([name for name in ('faust', 'aiohttp', 'httpx', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("role", ["classifier", "discriminator"])
def test_models_are_loaded_before_the_broker_is_asked_as_it_may_be_away_meanwhile(
    monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    # found by chaos: a classifier restarted while the broker was away loaded its words only when it was back, for 5 s
    done: list[str] = []
    for name in ("FollowedPlans", "FollowedEnds", "FollowedInFlight", "FollowedFleet"):
        view = SimpleNamespace(start=lambda: done.append("view"), close=lambda: None)
        monkeypatch.setattr(assembly, name, lambda *_args, view=view: view)
    monkeypatch.setattr(assembly, "check_access", lambda *_args: None)
    known = SimpleNamespace(start=lambda: done.append("schemas"), close=lambda: None)
    monkeypatch.setattr(assembly, "KnownSchemas", lambda _settings: known)
    monkeypatch.setattr(assembly, "create_topics", lambda *_args: done.append("topics"))
    monkeypatch.setattr(judges, "open_judge", lambda _catalog: done.append("models"))
    monkeypatch.setattr(scorers, "open_scorers", lambda _catalog: done.append("models"))
    settings, levels = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), catalogs.load("profile")
    with contextlib.ExitStack() as stack:
        views = assembly.Views(settings, role, levels, MemoryRecordProducer(), stack)
        assert assembly._logics(role, settings, levels, views, assembly.Process(Health({role})))
    assert done[:4] == ["models", "topics", "schemas", "view"]
    assert done.count("topics") == 1
