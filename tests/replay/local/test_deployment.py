import pathlib

import pytest

from replay.local.deployment import child_options, own_deployment, roles_of, settings_shown, versions
from schemas.errors import Unknown
from streams.cli import nested
from streams.settings import Settings, load


def read_back(options: list[str]) -> Settings:
    """What a child process makes of these options."""
    assert options[0] == "--home"
    assert set(options[2::2]) <= {"--set"}
    return load({**nested(tuple(options[3::2])), "home": options[1]})


PLANNER = {"parameters": {"slack": 0.5}, "scale": {"minimum": {"heavy": 1}, "max_by_tenant": {"a.b": 2}}}


def test_a_run_has_topics_of_its_own_and_keeps_every_other_setting(tmp_path: pathlib.Path) -> None:
    own = own_deployment(Settings(home=tmp_path), "pochade-demo-7", catalog="profile")
    assert own.kafka.prefix == "pochade-demo-7"
    assert own.catalog == "profile"
    assert own.planner == Settings().planner


def test_children_read_back_exactly_the_settings_of_the_run(tmp_path: pathlib.Path) -> None:
    webhooks = {"internal": ["http://10.0.0.7:8080", "http://10.0.0.8:8080"]}
    given = load(
        {
            "home": tmp_path, "kafka": {"session_timeout_ms": 9000}, "planner": PLANNER,
            "gateway": {"webhooks": webhooks}, "features": ["mine"],
        }
    )  # fmt: skip
    own = own_deployment(given, "pochade-demo-7", catalog="profile", engine="profile", policy="hadis", workers=9)
    assert read_back(child_options(own, load())) == own
    assert own.kafka.jobs_partitions == 9


def test_what_children_inherit_is_not_put_on_their_command_line(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POCHADE_KAFKA__PROPERTIES", '{"sasl.password": "hush"}')
    options = child_options(own_deployment(load({"home": tmp_path}), "pochade-demo-7"), load())
    assert "hush" not in " ".join(options)
    assert "hush" not in str(settings_shown(load()))


def test_a_small_deployment_has_every_role_and_each_worker_its_name() -> None:
    roles = roles_of(["--home", "/h"], ["worker-1", "worker-2"])
    served = [role for process in roles for role in process.command[process.command.index("serve") + 1 :]]
    assert sorted(served) == ["classifier", "discriminator", "ledger", "planner", "router", "worker", "worker"]
    assert [f"worker.id={p.name}" in p.command for p in roles if p.name.startswith("worker")] == [True, True]


def test_a_deployment_with_a_vector_store_has_an_index_writer(tmp_path: pathlib.Path) -> None:
    roles = roles_of(["--home", "/h"], ["worker-1"], has_index=True)
    assert roles[-1].command[-2:] == ("serve", "indexer")
    own = own_deployment(load({"home": tmp_path}), "pochade-demo-7", vectors_url="lite", parameters={"batch": 2.0})
    assert (own.vectors.url, own.planner.parameters) == ("lite", {"batch": 2.0})
    assert "vectors.url=lite" in child_options(own, load())


def test_versions_name_what_ran() -> None:
    assert {"python", "pochade", "torch"} <= set(versions())


@pytest.mark.parametrize(
    ("asked", "kind"), [({"engine": "foo"}, "engine"), ({"policy": "foo"}, "policy"), ({"catalog": "foo"}, "catalog")]
)
def test_a_name_that_nobody_knows_is_refused_before_anything_is_started(
    tmp_path: pathlib.Path, asked: dict[str, str], kind: str
) -> None:
    with pytest.raises(Unknown, match=f"unknown {kind} 'foo': known are"):
        own_deployment(load({"home": tmp_path}), "pochade-demo-7", **asked)
