"""A deployment on a secured broker: a TOML file and a password file for each user, commands and roles as them."""

import json
import pathlib
import re
from collections.abc import Mapping, Sequence

import httpx
import tomlkit
from click.testing import CliRunner, Result

from replay.local.processes import role_process
from streams import cli
from streams.processes.children import Child, end_all, spawn
from streams.settings import Settings, load
from tests.integration.forked import ROLE_SERVER
from tests.integration.receiver import Receiver
from tests.integration.secure_broker import SecureBroker
from tests.integration.waiting import ask
from tests.patience import PATIENCE_S

PREFIX = "secured"


class Deployment:
    """Configuration files, users and processes of a deployment on a secured broker."""

    def __init__(self, broker: SecureBroker, folder: pathlib.Path, receiver: Receiver | None = None) -> None:
        """`receiver`: of webhooks, if any are told."""
        self.broker, self.folder = broker, folder
        told = [receiver.origin] if receiver else []
        self._gateway = {"port": 0, "webhooks": {"internal": told}}
        self.processes: dict[str, Child] = {}
        self.commands: list[Sequence[str]] = []

    def password_file(self, who: str) -> pathlib.Path:
        return self.folder / f"{who}.password"

    def configure(self, who: str, properties: Mapping[str, str], listener: str = "SASL") -> pathlib.Path:
        """The TOML file of one role or client."""
        content = {
            "home": str(self.folder / "home"),
            "catalog": "profile",
            "gateway": self._gateway,
            "console": {"port": 0},
            "kafka": {
                "bootstrap_servers": self.broker.address(listener),
                "prefix": PREFIX,
                "session_timeout_ms": 3000,
                "properties": dict(properties),
            },
        }
        path = self.folder / f"{who}.toml"
        path.write_text(tomlkit.dumps(content))
        return path

    def add(self, who: str, password: str) -> None:
        """A user of that name whose password lies in a file."""
        self.password_file(who).write_text(password)
        self.configure(who, self.broker.scram(who, f"file:{self.password_file(who)}"))

    def settings(self, properties: Mapping[str, str], listener: str = "SASL") -> Settings:
        kafka = {"bootstrap_servers": self.broker.address(listener), "prefix": PREFIX, "properties": dict(properties)}
        return load({"home": self.folder / "home", "catalog": "profile", "kafka": kafka})

    def pochade(self, who: str, *arguments: str) -> Result:
        """A command as one user."""
        options = ["--config", str(self.folder / f"{who}.toml")]
        # the command sets POCHADE_CONFIG for its children: what is set here is as before when it is done
        done = CliRunner(env={"POCHADE_CONFIG": None}).invoke(cli.main, [*options, *arguments])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.output
        return done

    def serve(self, who: str, roles: Sequence[str] = (), *, is_forked: bool = True) -> None:
        """A process as one user; without `roles` the one of that name."""
        options = ["--config", str(self.folder / f"{who}.toml")]
        command = role_process(who, roles or [who], options, {}).command
        self.commands.append(command)
        self.processes[who] = (ROLE_SERVER.fork if is_forked else spawn)(command, self.folder / f"{who}.log")

    def is_ready(self, role: str) -> bool:
        """Whether its newest process says so; a process that has ended fails the test with its last words."""
        reported = (self.folder / f"{role}.log").read_text()
        assert self.processes[role].poll() is None, reported[-2000:]
        addresses = re.findall(r"health and metrics on (\S+)/livez", reported)
        return bool(addresses) and ask(f"{addresses[-1]}/readyz")[0] == 200

    def address(self) -> str:
        """Where the gateway listens."""
        return str(re.findall(r"images API on (\S+)/v1", (self.folder / "gateway.log").read_text())[-1])

    def console(self) -> httpx.Client:
        """A browser at the console; forms that it sends are the console's own."""
        address = str(re.findall(r"console on (\S+)/", (self.folder / "console.log").read_text())[-1])
        return httpx.Client(base_url=address, headers={"origin": address}, timeout=PATIENCE_S, trust_env=False)

    def submitted(self, count: int, who: str = "producer") -> list[str]:
        """The ids of so many requests."""
        (self.folder / "prompts.txt").write_text("".join(f"a red circle {number}\n" for number in range(count)))
        done = self.pochade(who, "submit", "--file", str(self.folder / "prompts.txt"))
        assert done.exit_code == 0, done.output
        return done.stdout.split()

    def ended(self, ids: Sequence[str], who: str = "consumer") -> list[str]:
        """How these ended, once all have."""
        done = self.pochade(who, "watch", *ids, "--timeout", str(PATIENCE_S), "-o", "jsonl")
        assert done.exit_code == 0, done.output
        results = self.results(who)
        return [results[each] for each in ids]

    def results(self, who: str = "consumer") -> dict[str, str]:
        """Request id -> how it ended."""
        done = self.pochade(who, "results", "--since", "1h", "-o", "jsonl")
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return {row["request_id"]: row["status"] for row in rows}

    def close(self) -> None:
        end_all(self.processes.values())
