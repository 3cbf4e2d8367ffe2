import pathlib

import pytest
from click.testing import CliRunner

from replay.verify.chaos.command import lines
from replay.verify.chaos.kinds import ROLES
from replay.verify.chaos.options import ChaosOptions, deployment_of, from_remote, processes_of, share_jars
from replay.verify.chaos.weights.checks import Checked
from schemas.errors import PochadeError
from streams.catalogs import load as load_catalog
from streams.cli import main
from streams.settings import Settings

MOVED = {"moved_bytes": {"volume": 1_500_000, "host": 2_000_000}, "loads": 3, "exceeded": []}


def some(**changes: object) -> ChaosOptions:
    values: dict[str, object] = {
        "requests": 100, "faults": 7, "seed": 3, "engine": "profile", "rate_rps": None, "workers": 2, "policy": None,
        "report": None, "is_kept": False,
    }  # fmt: skip
    return ChaosOptions(**(values | changes))  # type: ignore[arg-type]


def test_a_run_has_a_broker_a_store_and_topics_that_nobody_else_uses(tmp_path: pathlib.Path) -> None:
    usual = Settings(home=tmp_path, kafka={"bootstrap_servers": "production:9092"}, store={"url": "s3://pictures/all"})
    own = deployment_of(usual, some(), "1122-0900-3")
    assert own.home == tmp_path / "chaos" / "1122-0900-3"
    assert (own.kafka.bootstrap_servers, own.store.url) == ("", "")
    assert own.store.folder == str(own.home / "images")
    assert (own.worker.engine, own.catalog) == ("chaos", "chaos")


def test_a_real_engine_has_time_for_a_job_that_outlasts_a_session(tmp_path: pathlib.Path) -> None:
    # with 30 s a run of diffusers ended its slow request FAILED: the watchdog ended each worker that generated it
    limits = [
        deployment_of(Settings(home=tmp_path), some(engine=engine), "run").worker.job_timeout_s
        for engine in ("profile", "diffusers")
    ]
    assert limits[0] < 60 < limits[1]


def test_every_role_can_die_alone() -> None:
    names = [process.name for process in processes_of(pathlib.Path("mark"), [], ["worker-1", "worker-2"])]
    assert names == [*ROLES, "worker-1", "worker-2"]


def test_a_run_says_how_to_run_it_again(tmp_path: pathlib.Path) -> None:
    reported = some(rate_rps=20.0, only=("kill",)).command(tmp_path)
    assert reported == (
        f"pochade --home {tmp_path} chaos --requests 100 --faults 7 --seed 3 --engine profile --workers 2 "
        "--only kill --rate 20"
    )


def test_the_jars_of_the_usual_home_are_used_again(tmp_path: pathlib.Path) -> None:
    usual = Settings(home=tmp_path)
    own = deployment_of(usual, some(), "run")
    share_jars(usual, own)
    assert not list((own.home / "kafka").iterdir())
    (tmp_path / "kafka" / "libs-4.3.1").mkdir(parents=True)
    for _ in range(2):
        share_jars(usual, own)
    (link,) = (own.home / "kafka").iterdir()
    assert link.resolve() == (tmp_path / "kafka" / "libs-4.3.1").resolve()


def test_the_end_of_a_run_tells_faults_that_met_nothing() -> None:
    report = {
        "brokers": 1,
        "accepted": 2, "outcomes": {"COMPLETED": 2}, "lost": 0, "duplicates": 0, "late_commits": 0, "painted": 3,
        "painted_twice": 1, "wasted_s": 0.2, "begun_in_vain": 0, "orphans": 1, "orphans_left": 0, "dead_letters": 0,
        "pictures": {"checked": 2, "broken": [], "marks_checked": 1, "foreign": []}, "lookups": None,
        "components": None,
        "oracle": {"told": 2, "lost": [], "doubled": ["r-1"], "gone": 0, "last_end_s": 1.5},
        "recovery": {
            "moved": [{"seconds": 3.5, "beside": ()}, {"seconds": 9.1, "beside": ("freeze ledger",)}],
            "moved_limit_s": 6.0, "first_result": [], "first_result_limit_s": 3.0, "painted_twice_limit": 3.0,
            "running_at_kills": 2,
        },
        "too_slow": ["the first result came late"],
        "faults": [{"told": "SIGKILL"}, {"told": "not done: ledger was not running"}],
    }  # fmt: skip
    reported = lines(report)
    assert reported["faults"] == "1 of 2; the others met nothing"
    assert reported["jobs moved after"] == (
        "at most 3.5 s after a worker's kill, of 1 (limit 6 s); 9.1 s beside other faults, of 1"
    )
    assert reported["generated twice"] == "1 of 3 jobs (limit 3: 2 ran as processes ended), 0.2 worker seconds"
    assert reported["first result after"] == "nothing to report"
    assert reported["too slow"] == "the first result came late"
    assert reported["counted outside"] == (
        "2 acknowledged, 0 without a result, 1 with several, 0 deleted unread; "
        "the last ended 1.5 s after the last fault"
    )
    assert "reuse" not in reported
    report |= {"reuse": {"none": 2, "hit": 5}, "lookups": {"max_p95_ms": 61.2, "breakers": {"failing": ["w-1"]}}}
    report["components"] = Checked(
        requests=30, images=33, largest_difference=41, unlike=("b", "c"), tiers=MOVED
    ).report()
    reported = lines(report)
    assert reported["components moved"] == "1.5 MB to volume, 2.0 MB to host; 3 loads that jobs waited for"
    assert reported["components"] == (
        "30 requests completed with the components that they named, 0 with others; 33 images generated again, 2 unlike "
        "(by at most 41 of 255)"
    )
    assert (reported["reuse"], reported["marks"]) == ("5 hit, 2 none", "1 checked, 0 foreign")
    assert reported["lookups"] == "p95 at most 61 ms, breakers: {'failing': ['w-1']}"


def test_a_kind_of_fault_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    done = CliRunner().invoke(main, ["chaos", "--only", "kil"], prog_name="pochade")
    assert done.exit_code == 1
    assert "did you mean 'kill'?" in done.stderr


def test_a_kind_of_several_brokers_is_refused_where_there_is_one() -> None:
    done = CliRunner().invoke(main, ["chaos", "--only", "rolling"], prog_name="pochade")
    assert done.exit_code == 1
    assert "rolling" in done.stderr


def test_two_brokers_are_refused_because_neither_may_die() -> None:
    done = CliRunner().invoke(main, ["chaos", "--brokers", "2"], prog_name="pochade")
    assert (done.exit_code, "neither of two brokers may die" in done.stderr) == (1, True)


def test_a_run_with_several_brokers_has_two_processes_of_each_role_and_says_so() -> None:
    names = [process.name for process in processes_of(pathlib.Path("mark"), [], ["worker-1"], with_twins=True)]
    assert names == [*ROLES, *(f"{role}-2" for role in ROLES), "worker-1"]
    assert "--brokers 3" in some(brokers=3).command(pathlib.Path("/h"))


def test_asking_for_a_fault_of_reuse_is_asking_for_reuse(tmp_path: pathlib.Path) -> None:
    assert [some(only=(kind,)).reuses for kind in ("kill", "vectors-lie", "indexer-kill")] == [False, True, True]
    own = deployment_of(Settings(home=tmp_path), some(with_reuse=True), "run")
    assert (own.vectors.url, own.catalog, own.planner.policy) == ("lite", "chaos-reuse", "nirvana")
    assert deployment_of(Settings(home=tmp_path, vectors={"url": "lite"}), some(), "run").vectors.url == ""
    assert " --reuse " in some(with_reuse=True, only=("kill",)).command(tmp_path)


def test_reuse_is_refused_where_images_do_not_show_what_they_began_from() -> None:
    with pytest.raises(PochadeError, match="--engine profile"):
        some(with_reuse=True, engine="diffusers")


def test_asking_for_a_fault_of_components_is_asking_for_components(tmp_path: pathlib.Path) -> None:
    asked = {only: some(engine="diffusers", only=(only,)).moves_components for only in ("kill", "fuse-kill")}
    assert asked == {"kill": False, "fuse-kill": True}
    assert " --components " in some(engine="diffusers", with_components=True, only=("kill",)).command(tmp_path)
    with pytest.raises(PochadeError, match="--components needs --engine diffusers"):
        some(with_components=True)


def test_a_fleet_that_is_scaled_has_no_fixed_worker_and_a_supervisor_that_brings_some(tmp_path: pathlib.Path) -> None:
    scaled = some(only=("scale-up-kill",), workers=3)
    assert (scaled.scales, scaled.worker_ids, scaled.rate) == (True, [], 4.0)
    own = deployment_of(Settings(home=tmp_path), scaled, "run")
    assert (own.planner.policy, own.planner.scale.max_workers) == ("octoai", 3)
    assert own.kafka.jobs_partitions > 3
    *_, supervisor = processes_of(pathlib.Path("mark"), ["--home", "/h"], [], is_scaled=True)
    assert (supervisor.name, supervisor.command[-3:]) == ("scale", ("scale", "--name", "worker"))
    assert " --scale " in some(is_scaled=True, only=("kill",)).command(tmp_path)
    for combined in ({"engine": "diffusers"}, {"with_reuse": True}):
        with pytest.raises(PochadeError, match="--scale needs --engine profile"):
            some(is_scaled=True, **combined)


def test_components_come_from_a_remote_of_the_run_and_no_tier_has_room_for_all(tmp_path: pathlib.Path) -> None:
    usual = Settings(home=tmp_path, worker={"components": {"remote": "s3://production"}})
    own = from_remote(deployment_of(usual, some(engine="diffusers", with_components=True), "run"), "http://here:1")
    placed = own.worker.components
    assert (placed.remote, placed.volume) == ("s3://weights", str(own.home / "volume"))
    assert own.store.s3_endpoint_url == "http://here:1"
    assert (own.catalog, own.planner.policy) == ("tiny", "mlora")
    of_all = sum(each.bytes for each in load_catalog("tiny").level("styles").components)
    assert 0 < placed.host_bytes < placed.volume_bytes < of_all


def test_workers_stop_at_points_where_faults_may_wait_for_them() -> None:
    points = pathlib.Path("points")
    *roles, worker = processes_of(pathlib.Path("mark"), [], ["worker-1"], points=points)
    assert "stop_at_points('points')" in worker.command[2]
    assert not any("stop_at_points" in each.command[2] for each in roles)


def test_an_index_writer_runs_where_images_are_reused() -> None:
    names = [process.name for process in processes_of(pathlib.Path("mark"), [], [], with_indexer=True)]
    assert names == [*ROLES, "indexer"]
    twins = processes_of(pathlib.Path("mark"), [], [], with_twins=True, with_indexer=True)
    assert "indexer-2" in [process.name for process in twins]
