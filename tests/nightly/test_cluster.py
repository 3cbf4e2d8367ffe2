"""The chart on a real kube-apiserver: installed, upgraded, rolled back; its command lines run on a real broker.

The server has the resource definitions of KEDA, Kueue and Prometheus's operator, and Strimzi's where these lie beside
the checkout. No pod starts.
"""

import contextlib
import copy
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from schemas.access import ROLES
from streams.broker.address import Address
from streams.cli import main
from tests.infra.chart.rendering import CHART, VALUE_FILES, of_file, pods, refused, rendered, template, toml
from tests.infra.chart.test_rendered import RENDER
from tests.nightly.apiserver import DEFINITIONS, Cluster, module, running
from tests.paths import SHARED

STRIMZI = SHARED / "data" / "crds"
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
MISTAKES = pathlib.Path(__file__).parents[1] / "infra" / "chart" / "mistakes.yaml"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if not STRIMZI.is_dir():
        pytest.skip(f"Strimzi's resource definitions do not lie beside the checkout, at {STRIMZI}")
    folders = [module(path, version) / folder for path, version, folder in DEFINITIONS]
    with running(tmp_path_factory.mktemp("cluster")) as cluster:
        for folder in (*folders, STRIMZI):
            files = [part for file in sorted(folder.glob("*.yaml")) for part in ("-f", str(file))]
            done = cluster.kubectl("create", *files)
            assert done.returncode == 0, done.stderr
        done = cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        assert done.returncode == 0, done.stderr
        yield cluster


@pytest.fixture(scope="module")
def strimzi(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("strimzi") / "strimzi.yaml"
    file.write_text(CliRunner().invoke(main, list(RENDER)).stdout)
    return str(file)


def arguments(name: str, strimzi: str) -> list[str]:
    objects = ["--set-file", f"strimzi.objects={strimzi}"] if name == "200-gpus" else []
    return [str(CHART), *of_file(name), *objects]


def namespace(cluster: Cluster, name: str) -> str:
    assert cluster.kubectl("create", "namespace", name).returncode == 0
    assert cluster.kubectl("label", "namespace", name, RESTRICTED).returncode == 0
    return name


@pytest.mark.parametrize("name", VALUE_FILES)
def test_the_server_takes_each_object_of_the_shipped_values(cluster: Cluster, strimzi: str, name: str) -> None:
    own = namespace(cluster, f"of-{name}")
    done = cluster.helm("install", "images", *arguments(name, strimzi), "--namespace", own)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr.lower(), done.stderr  # of Pod Security, or of fields that it does not know
    objects = rendered(name, strimzi if name == "200-gpus" else "")
    wanted = {(each["kind"], each["metadata"]["name"]) for each in objects}
    kinds = ",".join(sorted({kind for kind, _ in wanted if kind != "Pod"}))
    there = {(each["kind"], each["metadata"]["name"]) for each in cluster.get(kinds, "-n", own)["items"]}
    assert {(kind, each) for kind, each in wanted if kind != "Pod"} <= there


@pytest.mark.parametrize("name", VALUE_FILES)
def test_pod_security_admits_every_pod_as_restricted(cluster: Cluster, strimzi: str, name: str) -> None:
    own = namespace(cluster, f"pods-{name}")
    for component, spec in pods(rendered(name, strimzi if name == "200-gpus" else "")).items():
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": component}, "spec": spec}
        done = cluster.kubectl("create", "-n", own, "-f", "-", given=json.dumps(pod))
        assert done.returncode == 0, done.stderr
    worse = copy.deepcopy(pod)
    worse["metadata"]["name"] = "worse"
    worse["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    done = cluster.kubectl("create", "-n", own, "-f", "-", given=json.dumps(worse))
    assert done.returncode != 0
    assert 'violates PodSecurity "restricted' in done.stderr


def test_an_upgrade_changes_what_it_should_and_a_rollback_brings_it_back(cluster: Cluster, strimzi: str) -> None:
    own = namespace(cluster, "upgrade")
    given = [*arguments("200-gpus", strimzi), "--namespace", own]
    assert cluster.helm("install", "images", *given).returncode == 0
    secret = cluster.get("secret", "images-pochade-gateway", "-n", own)["data"]
    # as an autoscaler does
    scaled = cluster.kubectl("scale", "deployment/images-pochade-worker-heavy", "--replicas=17", "-n", own)
    assert scaled.returncode == 0, scaled.stderr
    before = _state(cluster, own)
    done = cluster.helm(
        "upgrade", "images", *given, "--set", "roles.router.replicas=8", "--set", "settings.logs.level=debug",
        "--set", "images.worker.tag=0.3.0", "--set", "workers.heavy.longestJobSeconds=240",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    after = _state(cluster, own)
    assert after["router"] == (8, 45)
    assert after["worker-heavy"] == (17, 270), "the autoscaler's number stays"
    assert 'level = "debug"' in cluster.get("configmap", "images-pochade-settings", "-n", own)["data"]["pochade.toml"]
    assert len(cluster.get("jobs", "-n", own)["items"]) == 1, "another image is another Job, as Jobs cannot change"
    assert cluster.get("secret", "images-pochade-gateway", "-n", own)["data"] == secret, "addresses stay valid"
    done = cluster.helm("rollback", "images", "1", "--namespace", own)
    assert done.returncode == 0, done.stderr
    assert _state(cluster, own) == before
    done = cluster.helm("uninstall", "images", "--namespace", own)
    assert done.returncode == 0, done.stderr
    left = cluster.get("kafka,kafkanodepool,pvc,secret,deployment,kafkatopic", "-n", own)["items"]
    kept = {each["kind"] for each in left}
    assert {"Kafka", "KafkaNodePool", "KafkaTopic", "PersistentVolumeClaim", "Secret"} <= kept
    assert "Deployment" not in kept


def _state(cluster: Cluster, own: str) -> dict[str, tuple[int, int]]:
    found = cluster.get("deployments", "-n", own)["items"]
    return {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: (
            each["spec"]["replicas"], each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
        )
        for each in found
    }  # fmt: skip


def test_ten_mistakes_are_refused_by_ten_sentences_and_nothing_is_made(cluster: Cluster) -> None:
    own = namespace(cluster, "mistakes")
    done = cluster.helm("install", "images", str(CHART), "--values", str(MISTAKES), "--namespace", own)
    assert done.returncode != 0
    assert len(refused(done.stderr)) == 10, done.stderr
    assert cluster.get("all", "-n", own)["items"] == []


@pytest.mark.parametrize(
    ("kind", "at", "value", "says"),
    [
        ("ScaledObject", ("spec", "maxReplicaCount"), "many", "maxReplicaCount"),
        ("ScaledObject", ("spec", "triggers"), None, "triggers"),
        ("KafkaTopic", ("spec", "partitions"), "four", "partitions"),
        ("KafkaUser", ("spec", "authorization", "type"), "none", "authorization"),
        ("PodDisruptionBudget", ("spec", "minAvailable"), 1, "minAvailable"),
        ("Deployment", ("spec", "replicas"), "two", "replicas"),
        ("ServiceMonitor", ("spec", "endpoints"), "metrics", "endpoints"),
    ],
)
def test_the_server_refuses_what_is_wrong_in_an_object(
    cluster: Cluster, strimzi: str, kind: str, at: tuple[str, ...], value: Any, says: str
) -> None:
    wrong = copy.deepcopy(next(each for each in rendered("200-gpus", strimzi) if each["kind"] == kind))
    place = wrong
    for key in at[:-1]:
        place = place[key]
    if value is None:
        del place[at[-1]]
    else:
        place[at[-1]] = value
    wrong["metadata"].pop("namespace", None)
    right = next(each for each in rendered("200-gpus", strimzi) if each["kind"] == kind)
    assert cluster.kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(right)).returncode == 0
    done = cluster.kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(wrong))
    assert done.returncode != 0
    assert says in done.stderr


def test_the_selector_of_a_deployment_cannot_change_and_the_chart_does_not_change_it(cluster: Cluster) -> None:
    own = namespace(cluster, "selectors")
    given = [*arguments("laptop", ""), "--namespace", own]
    assert cluster.helm("install", "images", *given).returncode == 0
    labelled = ["--set", "podLabels.team=art", "--set", "images.serving.tag=9.9.9"]
    done = cluster.helm("upgrade", "images", *given, *labelled)
    assert done.returncode == 0, done.stderr
    patch = '{"spec":{"selector":{"matchLabels":{"team":"art"}}}}'
    done = cluster.kubectl("patch", "deployment", "images-pochade-router", "-n", own, "--type=merge", "-p", patch)
    assert "field is immutable" in done.stderr


def test_kueues_label_is_on_the_workers_and_its_queue_is_an_object_that_the_server_takes(
    cluster: Cluster, strimzi: str
) -> None:
    own = namespace(cluster, "queues")
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "images"},
        "spec": {"clusterQueue": "gpus"},
    }  # fmt: skip
    done = cluster.kubectl("create", "-n", own, "-f", "-", given=json.dumps(queue))
    assert done.returncode == 0, done.stderr
    assert cluster.helm("install", "images", *arguments("200-gpus", strimzi), "--namespace", own).returncode == 0
    found = cluster.get("deployments", "-n", own, "-l", "kueue.x-k8s.io/queue-name=images")["items"]
    names = {each["metadata"]["name"] for each in found}
    assert names == {"images-pochade-worker-light", "images-pochade-worker-heavy"}


def test_each_rendered_command_line_starts_and_together_they_serve(broker: Address, tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "url-secret"
    secret.write_text("a" * 64)
    given = {
        "kafka.bootstrapServers": broker.bootstrap.replace(",", "\\,"), "kafka.authentication": "none",
        "kafka.caSecret": "", "kafka.prefix": "rendered", "settings.catalog": "profile", "weights.enabled": "false",
        "settings.store.folder": str(tmp_path / "images"), "settings.gateway.url_secret": f"file:{secret}",
        "workers.gpu.device.resource": "", "workers.gpu.device.setting": "cpu", "workers.gpu.minimum": "1",
        "workers.gpu.settings.worker\\.engine": "profile", "settings.http.host": "127.0.0.1",
    }  # fmt: skip
    done = template(*of_file("one-gpu"), *(part for pair in given.items() for part in ("--set", "=".join(pair))))
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    (tmp_path / "pochade.toml").write_text(toml(objects))
    lines = {component: pod["containers"][0] for component, pod in pods(objects).items()}
    asked = lines.pop("test")["args"]
    assert set(lines) == {*ROLES, "worker-gpu"} - {"worker", "indexer"}
    program = str(pathlib.Path(sys.executable).with_name("pochade"))
    # ports are of a pod's own, and here of one machine
    shared = {"POCHADE_HTTP__PORT": "0", "POCHADE_GATEWAY__PORT": "0", "POCHADE_CONSOLE__PORT": "0"}
    environments = {}
    for component, container in lines.items():
        own = {each["name"]: each.get("value", component) for each in container["env"]}
        own |= {"POCHADE_CONFIG": str(tmp_path / "pochade.toml"), "POCHADE_HOME": str(tmp_path / component)}
        environments[component] = {**os.environ, **own, **shared, "HOME": str(tmp_path)}
    processes = {}
    with contextlib.ExitStack() as stack:
        for component, container in lines.items():
            log = stack.enter_context((tmp_path / f"{component}.log").open("wb"))
            processes[component] = subprocess.Popen(
                [program, *container["args"]], env=environments[component], stdout=log, stderr=log, cwd=tmp_path
            )
        try:
            by_hand = {"env": environments["console"], "cwd": tmp_path, "capture_output": True, "text": True}
            ready = subprocess.run([program, *asked], timeout=360, check=False, **by_hand)
            assert ready.returncode == 0, ready.stderr
            one = subprocess.run([program, "submit", "a red heart", "--wait"], timeout=120, check=False, **by_hand)
            assert one.returncode == 0, one.stderr
            assert "COMPLETED" in one.stdout
            assert [name for name, each in processes.items() if each.poll() is not None] == []
        finally:
            for each in processes.values():
                each.terminate()
            ended = {name: _ended(each) for name, each in processes.items()}
    assert ended == dict.fromkeys(lines, 0)


def _ended(process: "subprocess.Popen[bytes]") -> int:
    try:
        return process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
