"""The chart's objects, by `helm template`: skipped, with a sentence, where Helm is not on the machine."""

import json
import pathlib
import tomllib
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from schemas.access import ROLES, WHO
from streams.cli import main
from tests.infra.chart.rendering import (
    CHART,
    MISTAKES,
    VALUE_FILES,
    of_file,
    pods,
    refused,
    rendered,
    template,
    toml,
    values,
)

NOT_OURS = {"HOME", "HF_HOME"}
RENDER = (
    "--set", "kafka.flow_partitions=24", "--set", "kafka.jobs_partitions=200",
    "topics", "render", "strimzi", "--cluster", "images",
)  # fmt: skip


@pytest.fixture(scope="session")
def strimzi(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("strimzi") / "strimzi.yaml"
    done = CliRunner().invoke(main, list(RENDER))
    assert done.exit_code == 0, done.output
    file.write_text(done.stdout)
    return str(file)


def objects_of(name: str, strimzi: str) -> list[dict[str, Any]]:
    return rendered(name, strimzi if name == "200-gpus" else "")


@pytest.mark.parametrize("name", VALUE_FILES)
def test_each_command_line_has_settings_that_exist_and_agree(name: str, strimzi: str, tmp_path: pathlib.Path) -> None:
    objects = objects_of(name, strimzi)
    (tmp_path / "pochade.toml").write_text(toml(objects))
    roles = set()
    for component, pod in pods(objects).items():
        (container,) = pod["containers"]
        flags = [arg for arg in container["args"][1::2] if "=" in arg]
        words = container["args"][2 * len(flags) :]
        assert container["args"] == [*(part for flag in flags for part in ("--set", flag)), *words]
        environment = {each["name"]: each.get("value", "a-pod") for each in container["env"]}
        environment["POCHADE_CONFIG"] = str(tmp_path / "pochade.toml")
        environment["POCHADE_HOME"] = str(tmp_path)
        given = [part for flag in flags for part in ("--set", flag)]
        shown = CliRunner().invoke(main, [*given, "config", "show", "-o", "jsonl"], env=environment)
        assert shown.exit_code == 0, f"{component}: {shown.output}"
        known = {json.loads(line)["name"] for line in shown.stdout.splitlines()}
        for variable in environment.keys() - NOT_OURS - {"POCHADE_CONFIG"}:
            assert variable.startswith("POCHADE_"), component
            assert variable.removeprefix("POCHADE_").lower().replace("__", ".") in known, component
        helped = CliRunner().invoke(main, [*[word for word in words if not word.startswith("-")][:2], "--help"])
        assert helped.exit_code == 0, f"{component}: {words}"
        if words[0] == "serve":
            assert words[1] in ROLES
            roles.add(words[1])
    assert roles == {"classifier", "router", "discriminator", "ledger", "planner", "worker", "gateway", "console"}


@pytest.mark.parametrize("name", VALUE_FILES)
def test_all_pods_are_restricted_and_write_to_volumes_alone(name: str, strimzi: str) -> None:
    for component, pod in pods(objects_of(name, strimzi)).items():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 65532
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False, "a Service's variables would be read as settings"
        mounted = {each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
        assert {"/tmp", "/var/lib/pochade", "/etc/pochade"} <= mounted, component
        names = {each["name"] for each in pod["volumes"]}
        assert {each["name"] for each in pod["containers"][0]["volumeMounts"]} == names
        for container in pod["containers"]:
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"] is True
            assert rights["allowPrivilegeEscalation"] is False
            assert rights["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("name", VALUE_FILES)
def test_a_worker_has_one_device_and_the_time_of_its_longest_job_to_end(name: str, strimzi: str) -> None:
    given = values(name)
    workers = {c: pod for c, pod in pods(objects_of(name, strimzi)).items() if c.startswith("worker-")}
    assert set(workers) == {f"worker-{each}" for each in given["workers"]}
    for component, pod in workers.items():
        of = {**given["workerDefaults"], **given["workers"][component.removeprefix("worker-")]}
        (container,) = pod["containers"]
        longest = of["longestJobSeconds"]
        variables = {each["name"]: each.get("value") for each in container["env"]}
        assert pod["terminationGracePeriodSeconds"] > int(variables["POCHADE_SHUTDOWN_TIMEOUT_S"]) == longest
        assert f"worker.job_timeout_s={longest}" in container["args"]
        assert "lifecycle" not in container, "SIGTERM drains"
        cards = {key: value for key, value in container["resources"]["limits"].items() if "/" in key}
        assert cards == ({of["device"]["resource"]: 1} if of["device"]["resource"] else {})


def test_autoscalers_go_by_the_plans_wanted_workers_and_never_by_lag(strimzi: str) -> None:
    objects = rendered("200-gpus", strimzi)
    specs = [each["spec"] for each in objects if each["kind"] == "ScaledObject"]
    scaled = {spec["scaleTargetRef"]["name"]: spec for spec in specs}
    assert set(scaled) == {"images-pochade-worker-light", "images-pochade-worker-heavy"}
    for name, spec in scaled.items():
        (trigger,) = spec["triggers"]
        assert trigger["type"] == "prometheus"
        assert "pochade_workers_wanted" in trigger["metadata"]["query"]
        assert f'variant="{name.rpartition("-")[2]}"' in trigger["metadata"]["query"]
        assert trigger["metadata"]["ignoreNullValues"] == "false", "no planner is not a plan of no workers"
        assert (trigger["metadata"]["threshold"], trigger["metricType"]) == ("1", "AverageValue")
        assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
    deployments = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Deployment"}
    assert all("replicas" not in deployments[name] for name in scaled), "an upgrade would undo the autoscaler's number"
    settings = tomllib.loads(toml(objects))
    assert settings["planner"]["scale"] == {"when": "always", "max_workers": 200, "start_s": 180}
    assert settings["kafka"]["jobs_partitions"] == 200


def test_each_pod_may_reach_the_secrets_of_its_own_user_alone(strimzi: str) -> None:
    objects = rendered("200-gpus", strimzi)
    users = {each["metadata"]["name"] for each in objects if each["kind"] == "KafkaUser"}
    assert users == {f"pochade-{who}" for who in WHO}
    assert all("app.kubernetes.io/instance" in each["metadata"]["labels"] for each in objects)
    for component, pod in pods(objects).items():
        (user,) = (v["secret"]["secretName"] for v in pod["volumes"] if v["name"] == "kafka-user")
        assert user in users
        assert f"kafka.properties.sasl.username={user}" in pod["containers"][0]["args"], component


def test_an_uninstall_leaves_what_holds_records_images_and_weights(strimzi: str) -> None:
    kept = {"Kafka", "KafkaNodePool", "KafkaTopic", "PersistentVolumeClaim", "Secret"}
    for each in (*rendered("200-gpus", strimzi), *rendered("laptop")):
        is_kept = each["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
        assert is_kept == (each["kind"] in kept), each["metadata"]["name"]


def test_budgets_are_for_what_has_two_pods_or_more_and_for_workers() -> None:
    found = {each["metadata"]["name"] for each in rendered("laptop") if each["kind"] == "PodDisruptionBudget"}
    assert found == {"images-pochade-worker-cpu"}


def test_rules_are_those_of_infra_observability(strimzi: str) -> None:
    (rules,) = (each["spec"] for each in rendered("200-gpus", strimzi) if each["kind"] == "PrometheusRule")
    assert rules == yaml.safe_load((CHART.parent / "observability" / "alerts.yaml").read_text())


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"kafka.bootstrapServers": ""}, "kafka.bootstrapServers is empty"),
        ({"store.volume.enabled": "false"}, "store.url is empty"),
        ({"roles.router.replicas": "9"}, "roles.router.replicas is 9, and only kafka.flowPartitions=4"),
        ({"workers.gpu.minimum": "3"}, "workers.gpu.minimum is 3, above its maximum of 1"),
        ({"keda.enabled": "true", "workers.gpu.scale": "true"}, "keda.prometheus is empty"),
        (
            {"keda.enabled": "true", "workers.gpu.scale": "true", "workers.cpu.scale": "true"},
            "workers cpu, gpu would each start all workers",
        ),
        (
            {"kafka.jobsPartitions": "2", "workers.gpu.minimum": "3"},
            "kafka.jobsPartitions is 2, and all classes may have 3",
        ),
        ({"gateway.expose": "true"}, "keys must not travel in clear"),
        ({"gateway.ingress.enabled": "true"}, "gateway.ingress.enabled needs gateway.expose=true"),
        ({"strimzi.enabled": "true", "kafka.prefix": "art"}, "topics render strimzi --cluster kafka > strimzi.yaml"),
        ({"strimzi.enabled": "true", "kafka.authentication": "none"}, "strimzi.enabled needs kafka.authentication"),
    ],
)
def test_values_that_contradict_each_other_are_refused_by_a_sentence(given: dict[str, str], sentence: str) -> None:
    done = template(*of_file("one-gpu"), *(part for pair in given.items() for part in ("--set", "=".join(pair))))
    assert done.returncode != 0
    assert sentence in done.stderr


def test_helm_refuses_ten_mistakes_by_ten_sentences() -> None:
    done = template("--values", str(pathlib.Path(__file__).parent / "mistakes.yaml"))
    assert done.returncode != 0
    assert set(refused(done.stderr)) == MISTAKES
    assert len(refused(done.stderr)) == 10


def test_settings_reach_the_file_as_they_were_given() -> None:
    given = {
        "planner": {"scale": {"minimum": {"light": 2}}, "slo_s": 2.5}, "results": {"format": "json"},
        "tenants": {"*": {"rate_rps": 0.1}}, "requests": {"max_deadline_s": 500000},
        "gateway": {"origins": ["https://a.example"]},
    }  # fmt: skip
    done = template(*of_file("laptop"), "--set-json", f"settings={json.dumps(given)}")
    assert done.returncode == 0, done.stderr
    read = tomllib.loads(toml([each for each in yaml.safe_load_all(done.stdout) if each]))
    for section, wanted in given.items():
        assert {key: read[section][key] for key in wanted} == wanted
