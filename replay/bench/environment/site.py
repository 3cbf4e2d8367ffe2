"""The place where a bench runs: a broker and topics of its own, and roles as child processes, all removed at the end.

With a configured cluster (`kafka.bootstrap_servers`) its topics are made there under a prefix of its own, and deleted.
"""

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka.admin import AdminClient

from replay.local.deployment import child_environment, child_options
from replay.local.processes import RoleProcess, role_process
from replay.local.supervisor import RestartLimit, Supervisor
from streams.broker import address, embedded, java, record
from streams.kafka import clients
from streams.kafka.topics import create_topics, own_topics
from streams.processes.children import Child
from streams.settings import Settings, load

SKELETON = "replay.bench.baselines.skeleton"


class Site:
    """The broker, topics and child processes of one bench run. Made by `open_site`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._runs = 0
        self._children = Supervisor([], settings.home / "logs", patience=RestartLimit(restarts=0))
        self._prefixes: list[Settings] = []

    def fresh(self, name: str, variants: Sequence[str], **changes: Any) -> Settings:
        """Settings with topics of their own, which are created; `changes` are those of other settings."""
        self._runs += 1
        prefix = f"{self.settings.kafka.prefix}-bench-{os.getpid()}-{self._runs}-{name}"
        kafka = self.settings.kafka.model_copy(update={"prefix": prefix})
        settings = self.settings.model_copy(update={"kafka": kafka, **changes})
        create_topics(settings, variants)
        self._prefixes.append(settings)
        return settings

    def serve(self, settings: Settings, name: str, roles: Sequence[str], **own: str) -> Child:
        """A `pochade serve` process; `own` are settings such as `worker__id`."""
        options = self.options(settings)
        mine = {key.replace("__", "."): value for key, value in own.items()}
        return self._start(role_process(name, roles, options, mine).command, name)

    def copying(self, settings: Settings, name: str, roles: Sequence[str]) -> Child:
        """A process of the skeleton: the same clients with handlers that only copy."""
        return self.python(name, SKELETON, *self.options(settings), *roles)

    @staticmethod
    def options(settings: Settings) -> list[str]:
        """Options of a command of ours for these settings."""
        inherited = load()
        os.environ.update(child_environment(settings, inherited))
        return child_options(settings, inherited)

    def python(self, name: str, module: str, *arguments: str) -> Child:
        """A child process of ours that runs a module."""
        return self._start((sys.executable, "-m", module, *arguments), name)

    def program(self, name: str, *command: str) -> Child:
        """A child process that runs any program."""
        return self._start(command, name)

    def _start(self, command: Sequence[str], name: str) -> Child:
        return self._children.add(RoleProcess(name=name, command=tuple(command)))

    def log_of(self, name: str) -> pathlib.Path:
        """Return the file that a child process writes its output to."""
        return self._children.log_of(name)

    def check(self) -> None:
        """Raise PochadeError with the end of its log if a child has died by itself."""
        self._children.check()

    def stop(self, *children: Child, is_killed: bool = False) -> None:
        """SIGTERM (or SIGKILL) and wait."""
        self._children.end(*children, is_killed=is_killed)

    def close(self) -> None:
        """Stop all children; on a configured cluster delete the topics."""
        self._children.stop()
        if address.is_foreign(self.settings):
            for settings in self._prefixes:
                client = AdminClient(clients.client_config(settings))
                for future in client.delete_topics(own_topics(settings), operation_timeout=15).values():
                    future.result(30)


@contextlib.contextmanager
def open_site(settings: Settings) -> Iterator[Site]:
    """A place in a temporary home, with the jars of the deployment's home, so that they are fetched once."""
    with contextlib.ExitStack() as stack:
        home = pathlib.Path(tempfile.mkdtemp(prefix="pochade-bench-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        own = settings.model_copy(update={"home": home})
        if not address.is_foreign(settings):
            _share_jars(address.kafka_home(settings), home / "kafka")
            stack.callback(embedded.stop, own)
        embedded.ensure(own)
        site = Site(own)
        stack.callback(site.close)
        yield site


def _share_jars(there: pathlib.Path, here: pathlib.Path) -> None:
    with contextlib.suppress(java.JavaMissing), record.locked(there):
        java.prepare(there, lambda _: None)
        here.mkdir(parents=True)
        (here / java.jars_folder(there).name).symlink_to(java.jars_folder(there))


def described(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a bench, for its report."""
    return {name: value for name, value in parameters.items() if isinstance(value, int | float | str | bool)}
