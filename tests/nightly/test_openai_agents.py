"""The client beside a package whose top-level name, `agents`, is one of this repository's too."""

import pathlib
import subprocess
import sys

from tests import environments

OTHERS = "openai-agents"


def test_the_client_and_openai_agents_import_in_one_environment(tmp_path: pathlib.Path) -> None:
    wheel = environments.built(tmp_path, "pochade-client")["pochade-client"]
    made = environments.make(tmp_path / "venv", [wheel], ["pochade-client"])
    fetch = [sys.executable, "-P", "-m", "pip", "--python", str(made.python), "install", "-q", OTHERS]
    done = subprocess.run(fetch, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    script = (
        "from agents import Agent; import pochade; print(Agent(name='a').name, pochade.Client().handle('r').request_id)"
    )
    assert made.said(script).split() == ["a", "r"]
    names = made.said("import agents, pochade; print(agents.__file__, pochade.__file__)").split()
    assert all(pathlib.Path(name).is_relative_to(made.packages) for name in names)
