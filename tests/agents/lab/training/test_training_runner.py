"""Steps side by side in processes of their own: order, failing, stopping."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from agents.lab.training.ledger import Ledger
from agents.lab.training.plan import Folders, Step
from agents.lab.training.progress import ProgressDisplay
from agents.lab.training.runner import Resources, Runner, StepFailed, last_line

WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('made')"
FAIL = "print('3/10 loss nan'); print('ValueError: the rate is too high'); raise SystemExit(3)"
SLEEP = "import time; print('1/2', flush=True); time.sleep(600)"


class Watched:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.most_at_once = 0
        self.stops_at: tuple[int, int] | None = None  # Ctrl-C when a step is so far
        self._running: set[str] = set()

    def skipped(self, step: Step) -> None:
        self.told.append(("skipped", step.name))

    def began(self, step: Step, log: Path) -> None:
        assert log.exists()
        self.told.append(("began", step.name))
        self._running.add(step.name)
        self.most_at_once = max(self.most_at_once, len(self._running))

    def goes_on(self, step: Step, done: int, total: int, line: str) -> None:
        if (done, total) == self.stops_at:
            raise KeyboardInterrupt
        if line:
            self.told.append((f"{done}/{total}", step.name))

    def ended(self, step: Step, minutes: float) -> None:
        assert minutes >= 0
        self.told.append(("ended", step.name))
        self._running.remove(step.name)

    def order(self, what: str) -> list[str]:
        return [name for told, name in self.told if told == what]


def a_step(name: str, *needs: str, code: str = WRITE, minutes: float = 1.0) -> Step:
    """One that writes work/NAME and does so by running `code`."""
    needed = tuple(f"work/{other}" for other in needs)
    return Step(name=name, module=code, seed=1, minutes=minutes, needs=needed, writes=(f"work/{name}",))


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Folders(work=tmp_path, models=tmp_path / "models"), seed=0, scale=1.0)


def command(step: Step, ledger: Ledger, resources: Resources) -> list[str]:
    assert resources.threads == 1
    target = ledger.folders.path(step.writes[0])
    note = f"from pathlib import Path; Path({str(target.with_suffix('.json'))!r}).write_text('{{\"seed\": 1}}')"
    return [sys.executable, "-c", f"{step.module}\n{note}", str(target)]


def runner(ledger: Ledger, watched: Watched, processes: int = 2) -> Runner:
    resources = Resources(processes=processes, threads=1, device="cpu")
    return Runner(ledger, resources, watched, command=command, poll_s=0.02)


CHAIN = [a_step("d", "b", "c"), a_step("c", "a", minutes=9.0), a_step("b", "a"), a_step("a")]


def test_a_step_begins_when_its_inputs_are_there_and_the_longest_chain_goes_first(
    ledger: Ledger, watched: Watched
) -> None:
    with runner(ledger, watched, processes=1) as one:
        one.run(CHAIN, again=frozenset())
    assert watched.order("began") == watched.order("ended") == ["a", "c", "b", "d"]
    assert all(ledger.has(f"work/{name}") for name in "abcd")


def test_independent_steps_run_side_by_side_and_no_more_than_allowed(ledger: Ledger, watched: Watched) -> None:
    with runner(ledger, watched) as two:
        two.run([a_step(name) for name in "abcde"], again=frozenset())
    assert watched.most_at_once == 2
    assert sorted(watched.order("ended")) == list("abcde")


def test_finished_steps_are_skipped_unless_they_are_asked_for_again(ledger: Ledger, watched: Watched) -> None:
    for again in (frozenset[str](), frozenset[str](), frozenset({"a"})):
        with runner(ledger, watched) as two:
            two.run([a_step("a"), a_step("b")], again)
    assert sorted(watched.order("began")) == ["a", "a", "b"]
    assert sorted(watched.order("skipped")) == ["a", "b", "b"]


def test_a_step_begun_again_loses_its_checkpoint_and_one_broken_off_keeps_it(ledger: Ledger, watched: Watched) -> None:
    checkpoint = ledger.folders.work / "a.checkpoint"
    for again, is_kept in ((frozenset[str](), True), (frozenset({"a"}), False)):
        checkpoint.write_text("half of it")
        with runner(ledger, watched) as two:
            two.run([a_step("a")], again)
        assert checkpoint.exists() == is_kept


def test_a_failing_step_names_its_last_words_and_its_log_and_stops_the_others(ledger: Ledger, watched: Watched) -> None:
    steps = [a_step("bad", code=FAIL), a_step("slow", code=SLEEP), a_step("after", "bad")]
    with (
        pytest.raises(StepFailed, match=r"bad failed \(exit code 3\): ValueError.*logs/bad\.log"),
        runner(ledger, watched) as two,
    ):
        two.run(steps, again=frozenset())
    assert "after" not in watched.order("began")
    assert "slow" not in watched.order("ended")


def test_leaving_ends_what_still_runs(ledger: Ledger, watched: Watched) -> None:
    watched.stops_at = (1, 2)
    two = runner(ledger, watched)
    with pytest.raises(KeyboardInterrupt), two:
        two.run([a_step("slow", code=SLEEP)], again=frozenset())
    assert [running.process.poll() is not None for running in two.running.values()] == [True]


def test_how_far_a_step_is_comes_from_its_log(ledger: Ledger, watched: Watched) -> None:
    code = "import time; print('a 3/8 loss 0.5', flush=True); time.sleep(0.3)\n" + WRITE
    with runner(ledger, watched) as two:
        two.run([a_step("a", code=code)], again=frozenset())
    assert watched.order("3/8")


def test_the_last_line_of_a_log_is_the_last_that_says_something(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\n" * 5000 + "last words\n\n  \n")
    assert last_line(log) == "last words"
    log.write_text("")
    assert last_line(log) == ""


def tell(display: ProgressDisplay, log: Path) -> None:
    step = a_step("unet_XS", minutes=25.0)
    with display:
        display.skipped(a_step("decoder"))
        display.began(step, log)
        display.goes_on(step, 30, 120, "unet_XS 30/120 loss [0.25]")
        display.ended(step, minutes=24.04)
        display.began(a_step("unet_L"), log)


def test_without_a_terminal_the_board_tells_what_began_and_ended(tmp_path: Path) -> None:
    out = io.StringIO()
    tell(ProgressDisplay(Console(file=out, width=200), scale=0.1), tmp_path / "unet_XS.log")
    assert out.getvalue().splitlines() == [
        "decoder: finished before",
        f"unet_XS: about 2 min, log in {tmp_path}/unet_XS.log",
        "unet_XS: done in 24.0 min",
        f"unet_L: about 1 min, log in {tmp_path}/unet_XS.log",
    ]


def test_on_a_terminal_the_board_shows_how_far_a_step_is_and_its_last_line(tmp_path: Path) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200, force_terminal=True, color_system=None, legacy_windows=False)
    display = ProgressDisplay(console)
    with display:
        display.began(a_step("unet_XS"), tmp_path)
        display.goes_on(a_step("unet_XS"), 30, 120, "unet_XS 30/120 loss [0.25]")
        display.refresh()
    assert "25%" in out.getvalue()
    assert "30/120 loss [0.25]" in out.getvalue()
