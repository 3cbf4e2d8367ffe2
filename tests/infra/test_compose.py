"""The compose file starts what there is: each command line, setting, port and property is one that Pochade has."""

import importlib.metadata
import os
import re
from typing import Any

import pytest
import yaml

from infra.images.build import IMAGES
from schemas.errors import Unknown
from streams.broker.config import properties
from streams.broker.docker import DATA, IMAGE, environment
from streams.broker.node import Ports
from streams.settings import load
from tests.integration.test_readme import parse
from tests.paths import ROOT

FILE = ROOT / "infra" / "compose.yaml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: each for name, each in SERVICES.items() if each["image"].startswith("pochade-")}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No POCHADE_* of whoever runs the tests."""
    for name in [each for each in os.environ if each.startswith("POCHADE_")]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_each_of_our_services_has_an_image_that_is_built_and_a_command_that_exists() -> None:
    version = importlib.metadata.version("pochade")
    for name, service in OURS.items():
        assert re.fullmatch(rf"pochade-({'|'.join(IMAGES)}):{re.escape(version)}", service["image"]), name
        assert parse(service["command"]) in ("pochade serve", "pochade up"), name
    served = [role for each in OURS.values() if each["command"][0] == "serve" for role in each["command"][1:]]
    assert sorted(served) == sorted(
        ["classifier", "router", "worker", "discriminator", "ledger", "planner", "gateway", "console"]
    )


@pytest.mark.parametrize("name", sorted(OURS))
def test_each_variable_is_a_setting_that_takes_its_value(name: str, variables: pytest.MonkeyPatch) -> None:
    for variable, value in OURS[name]["environment"].items():
        variables.setenv(variable, value)
    settings = load({})
    assert settings.kafka.bootstrap_servers == "127.0.0.1:9092"
    assert str(settings.home).startswith(("/tmp/", "/var/lib/pochade")), "what the image's user may write"
    assert settings.store.folder.startswith("/var/lib/pochade/"), "a volume that all share"
    variables.setenv("POCHADE_STORE__FOLDERS", "x")
    with pytest.raises(Unknown, match="folder"):
        load({})


def test_our_services_have_no_right_and_write_nothing_but_their_volume_and_tmp() -> None:
    for service in OURS.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "user" not in service, "the image's is 65532"


def test_the_broker_is_the_embedded_one_s_release_with_its_properties() -> None:
    broker = SERVICES["broker"]
    assert broker["image"] == IMAGE
    stated = {name: value for name, value in broker["environment"].items() if name.startswith("KAFKA_")}
    del stated["KAFKA_HEAP_OPTS"]
    assert stated == environment(properties(Ports(broker=9092, controller=9093, registry=0), DATA))


def test_prometheus_asks_every_process_and_has_our_rules() -> None:
    written = yaml.safe_load(COMPOSE["configs"]["prometheus"]["content"])
    (job,) = written["scrape_configs"]
    targets = [each for group in job["static_configs"] for each in group["targets"]]
    ports = [each["environment"]["POCHADE_HTTP__PORT"] for each in OURS.values() if each["command"][0] == "serve"]
    assert sorted(targets) == sorted(f"127.0.0.1:{port}" for port in ports)
    assert len(set(ports)) == len(ports)
    mounted = {each.split(":")[1]: each.split(":")[0] for each in SERVICES["prometheus"]["volumes"]}
    assert {mounted[file] for file in written["rule_files"]} == {"./observability/alerts.yaml"}
    assert (FILE.parent / "observability/alerts.yaml").is_file()


def test_every_image_is_pinned_and_every_volume_is_declared() -> None:
    named = {each.split(":")[0] for service in SERVICES.values() for each in service.get("volumes", [])}
    assert {each for each in named if not each.startswith(".")} == COMPOSE["volumes"].keys()
    assert all(re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", each["image"]) for each in SERVICES.values())
    assert all(each["network_mode"] == "host" for each in SERVICES.values())
