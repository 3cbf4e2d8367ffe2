"""A broker's container, known again by its name, and the `docker` command."""

import subprocess
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Container:
    """A broker's container, known by its name."""

    name: str

    def is_alive(self) -> bool:
        """Whether the container runs."""
        return docker("inspect", "-f", "{{.State.Running}}", self.name).stdout.strip() == "true"

    def rss_bytes(self) -> int:
        """Unknown for a container: 0."""
        return 0

    def stop(self, timeout_s: float) -> None:
        """Stop gracefully within `timeout_s`, and remove it; its volume stays."""
        docker("stop", "-t", str(int(timeout_s)), self.name)
        docker("rm", "-f", self.name)


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The ended command; an image may be pulled meanwhile, so that it may take minutes."""
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=900)
