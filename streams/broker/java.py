"""Embedded brokers as Java processes: command line, formatting of its data, a class archive for quick starts."""

import fcntl
import importlib.resources
import pathlib
import subprocess
import tempfile
from collections.abc import Mapping

import psutil

from schemas.errors import PochadeError
from streams.broker import jars as broker_jars
from streams.broker import probe
from streams.broker.config import HOST, Ports, free_ports, properties, render
from streams.broker.jars import Say
from streams.broker.process import Process, spawn

HEAP_MB = 256
STOP_LIMIT_S = 15.0
FORMAT_LIMIT_S = 120
ARCHIVE_LIMIT_S = 60.0
ARCHIVE = "classes.jsa"

# C1 only and one collector thread: less memory and a quicker start, ample for thousands of records a second
_JVM = ("-Xms64m", f"-Xmx{HEAP_MB}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError")
_QUIET = ("-Xshare:auto", "-Xlog:disable", "-XX:-UsePerfData", "-Djava.awt.headless=true")


def command(java: str, jars: pathlib.Path, kafka_home: pathlib.Path, main: str, *arguments: str) -> list[str]:
    """One of Kafka's main classes with its arguments."""
    archive = jars / ARCHIVE
    shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
    log4j = f"-Dlog4j2.configurationFile={kafka_home / 'log4j2.properties'}"
    return [java, *_JVM, *_QUIET, *shared, log4j, "-cp", broker_jars.class_path(jars), main, *arguments]


def start(kafka_home: pathlib.Path, ports: Ports, cluster_id: str, say: Say) -> Process:
    """Fetch what is missing, format `kafka_home`/data if it is new, and start the broker; it is not ready yet.

    Raises:
        JavaMissing, PochadeError: what is missing or went wrong, and what to do.
    """
    java, jars = prepare(kafka_home, say)
    return launch(java, jars, kafka_home, properties(ports, str(kafka_home / "data")), cluster_id)


def launch(
    java: str, jars: pathlib.Path, folder: pathlib.Path, settings: Mapping[str, str], cluster_id: str
) -> Process:
    """Start a node with Kafka's own `settings`, on `folder`/data, formatted if it is new; it is not ready yet.

    Raises:
        PochadeError: the data is in use, or could not be formatted.
    """
    _check_unused(folder)
    _write_settings(folder, settings)
    _format(java, jars, folder, cluster_id)
    return spawn(_run(java, jars, folder), folder / "broker.log")


def prepare(kafka_home: pathlib.Path, say: Say) -> tuple[str, pathlib.Path]:
    """The Java and the folder of jars to run with, fetched if they are missing; the caller holds the home's lock.

    Raises:
        JavaMissing, PochadeError: what is missing or went wrong, and what to do.
    """
    java = broker_jars.java()
    is_new = not broker_jars.folder(kafka_home).is_dir()
    jars = broker_jars.fetch(kafka_home, say)
    if is_new:
        say("preparing quick starts of the broker (a few seconds, once) ...")
        try:
            _archive_classes(java, jars)
        except PochadeError as failure:
            say(f"the broker will start slower, its class archive was not made: {failure}")
    return java, jars


def _run(java: str, jars: pathlib.Path, kafka_home: pathlib.Path) -> list[str]:
    return command(java, jars, kafka_home, "kafka.Kafka", str(kafka_home / "server.properties"))


def _check_unused(kafka_home: pathlib.Path) -> None:
    """Refuse: before a second broker sees the first's lock, its controller has written into the first's log.

    It may then compute for ever instead of ending.
    """
    file = kafka_home / "data" / ".lock"
    users = " ".join(str(pid) for pid in _brokers(kafka_home))  # one that has just begun holds no lock yet
    if not users and not _is_locked(file):
        return
    who = f"process {users}" if users else "whose process is not seen from here"
    remedy = f"`kill {users}`" if users else "stop that one"
    raise PochadeError(f"the data in {file.parent} is in use by another broker ({who}): {remedy}, then start again")


def _is_locked(file: pathlib.Path) -> bool:
    if not file.exists():
        return False
    with file.open("r+b") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the kind of lock that Java takes
        except (BlockingIOError, PermissionError):  # both are allowed to say "held"
            return True
    return False


def _brokers(kafka_home: pathlib.Path) -> list[int]:
    settings = str(kafka_home / "server.properties")
    return [each.pid for each in psutil.process_iter(["cmdline"]) if settings in (each.info["cmdline"] or ())]


def _write_settings(kafka_home: pathlib.Path, settings: Mapping[str, str]) -> None:
    (kafka_home / "server.properties").write_text(render(settings))
    log4j = importlib.resources.files("infra") / "kafka" / "log4j2.properties"
    (kafka_home / "log4j2.properties").write_text(log4j.read_text())


def _format(java: str, jars: pathlib.Path, kafka_home: pathlib.Path, cluster_id: str) -> None:
    if (kafka_home / "data" / "meta.properties").exists():  # the last file that formatting writes
        return
    arguments = ["format", "--ignore-formatted", f"--cluster-id={cluster_id}"]
    arguments += ["-c", str(kafka_home / "server.properties")]  # an id may begin with a dash: hence the `=`
    tool = command(java, jars, kafka_home, "kafka.tools.StorageTool", *arguments)
    done = subprocess.run(tool, capture_output=True, text=True, timeout=FORMAT_LIMIT_S)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-6:])
        raise PochadeError(f"Kafka could not format {kafka_home / 'data'} (exit {done.returncode}):\n{last}")


def _archive_classes(java: str, jars: pathlib.Path) -> None:
    """Run a throwaway broker once and keep its loaded classes: later starts take 0.9 s instead of 2.0 s.

    A Java that differs from the one that wrote the archive ignores it; without it the broker only starts slower.
    """
    with tempfile.TemporaryDirectory(prefix="pochade-kafka-") as folder:
        home, ports = pathlib.Path(folder), free_ports()
        _write_settings(home, properties(ports, str(home / "data")))
        _format(java, jars, home, "AAAAAAAAAAAAAAAAAAAAAQ")
        part = jars / (ARCHIVE + ".part")
        run = _run(java, jars, home)
        process = spawn([run[0], f"-XX:ArchiveClassesAtExit={part}", *run[1:]], home / "broker.log")
        try:
            config = probe.starting_config(f"{HOST}:{ports.broker}")
            probe.probe(config, ARCHIVE_LIMIT_S, process.is_alive)
        finally:
            process.stop(ARCHIVE_LIMIT_S)
        if part.exists():
            part.rename(jars / ARCHIVE)
