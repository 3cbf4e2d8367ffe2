"""`pochade bench in-flight`: all sides generate every image, in turns."""

import json

from click.testing import CliRunner

from replay.bench.commands.bench import bench


def test_every_side_is_measured_and_held_against_the_server_s_own_throughput() -> None:
    asked = ["in-flight", "--calls", "3", "--service-s", "0.02", "--images", "9", "--turns", "2", "-o", "json"]
    said = CliRunner().invoke(bench, asked, catch_exceptions=False)
    assert said.exit_code == 0, said.output
    report = json.loads(said.output)
    for side in ("baseline_per_s", "worker_per_s", "ratio", "ratio_of_windows_apart"):
        assert report[side]["repeats"] == 2
        assert report[side]["min"] > 0
