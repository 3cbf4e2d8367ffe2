"""`pochade bench peers` with every side that this machine can run, for as short as it can be."""

import json
import subprocess

from replay.bench.peers.sides import CELERY, POCHADE, RAY, SIDES, is_there
from tests.paths import ROOT

KEPT = ROOT / ".pochade" / "tests" / "peers"  # the peers' environment, fetched once


def test_every_side_answers_under_every_load_and_pochade_loses_nothing_to_kill_9() -> None:
    short = ["--work", "0.1", "--span", "3", "--burst", "1", "--busy", "0.4", "--kills", "1", "-o", "json"]
    command = ["pochade", "--home", str(KEPT), "bench", "peers", *short]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2600)
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    found = report["work_100_ms"]
    assert set(SIDES) - found.keys() <= ({CELERY} - {name for name in SIDES if is_there(name)})
    for name in set(SIDES) & found.keys():
        side = found[name]
        assert [side[phase]["without_image"] for phase in ("one_client", "steady", "burst")] == [0, 0, 0], name
        assert side["steady"]["beside_ms"]["p50"] > 0, name
        assert side["steady"]["cpu_ms"] > 0, name
    for part, figures in report["kill"][POCHADE].items():
        assert (figures["requests"] > 0, figures["lost"]) == (True, 0), part
    assert report["burst_with_levels"].keys() == {POCHADE, RAY}
