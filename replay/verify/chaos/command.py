"""`pochade chaos`: injects faults, and checks every promise."""

import pathlib
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from replay.commands.demo import leave, log_to
from replay.commands.options import seed_option
from schemas.errors import PochadeError, Unknown
from streams.commands.known_names import NamesOption, PolicyOption
from streams.commands.options import FILE, POSITIVE

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for Kafka's client
    from streams.settings import Settings

BROKERS = click.IntRange(1, 5)  # of one machine


class FaultOption(NamesOption):
    """An option that takes kinds of faults."""

    def known(self) -> Iterable[str]:
        """Return the kinds, those of several brokers among them."""
        from replay.verify.chaos.kinds import kinds

        return kinds(3, with_reuse=True, with_components=True, is_scaled=True)


@click.command()
@click.option(
    "--requests", type=click.IntRange(min=1), default=200, show_default=True, help="Number of requests to publish."
)
@click.option("--faults", type=click.IntRange(min=0), default=10, show_default=True, help="Number of faults to inject.")
@seed_option("the requests and of the schedule of faults")
@click.option(
    "--engine",
    type=click.Choice(["profile", "diffusers"]),
    default="profile",
    show_default=True,
    help="Engine of the workers: profile only sleeps as long as measured, diffusers generates images.",
)
@click.option(
    "--rate",
    "rate_rps",
    type=POSITIVE,
    help="Number of requests to publish per second (default: 8; --engine diffusers: 2; --components: 1; --reuse and "
    "--scale: 4).",
)
@click.option(
    "--workers", type=click.IntRange(2, 32), default=3, show_default=True, help="Number of worker processes to start."
)
@click.option(
    "--brokers",
    type=BROKERS,
    default=1,
    show_default=True,
    help="Number of brokers to start: 1, or 3 to 5 with two processes of each role.",
)
@click.option(
    "--policy",
    cls=PolicyOption,
    metavar="NAME",
    help="Policy of the planner (default: one that judges every first image; with --reuse, one that always looks up).",
)
@click.option(
    "--reuse",
    "with_reuse",
    is_flag=True,
    help="Let images begin from stored ones, of prompts that repeat, and break the vector store and its writer, too.",
)
@click.option(
    "--components",
    "with_components",
    is_flag=True,
    help="Let requests name bases, adapters and controls, and break their fetches, loads, fusions, files and remote.",
)
@click.option(
    "--scale",
    "is_scaled",
    is_flag=True,
    help="Let requests come in bursts and workers come and go as the plan asks, up to --workers; break that, too.",
)
@click.option(
    "--only",
    cls=FaultOption,
    multiple=True,
    metavar="KIND",
    help="Inject only faults of this kind, such as kill; may be repeated.",
)
@click.option("--report", type=FILE, help="File to write the JSON report to (default: HOME/chaos/report.json).")
@click.option(
    "--keep", "is_kept", is_flag=True, help="Keep topics, images and logs, also of a run in which all promises held."
)
@click.pass_obj
def chaos(load: "Callable[[], Settings]", /, **asked: Any) -> None:
    """Break a deployment on purpose while it serves, then audit that no request was lost or ended twice.

    Starts a broker and every role in HOME/chaos, publishes numbered requests, and kills, stops, doubles, misleads and
    cuts off roles, the broker and the store at times that follow from --seed. Exit status 1 says that a promise was
    broken; everything is then kept, and the report names the folder. The report also says how soon work went on after
    each fault, and lists recoveries that were too slow although no other fault was near; those break no promise, since
    they depend on the machine. With --brokers 3 each record has three copies; brokers are killed, stopped, frozen and
    restarted one by one, and one is lost for good. With --reuse an index writer and a Milvus Lite run beside the roles,
    and the audit also checks whose latents the images began from; faults of either, such as vectors-kill, imply it.
    With --components workers fetch the shipped weights from a bucket on this machine to a volume that is too small for
    all, and the audit also compares the components of each result with its request, and each image with one of the
    same request that is generated again from the shipped files. With --scale workers are started and drained by
    `pochade scale`.

    \b
    Examples:
      pochade chaos
      pochade chaos --requests 5000 --faults 60 --seed 2 --report chaos-2.json
      pochade chaos --requests 300 --faults 12 --engine diffusers
      pochade chaos --brokers 3 --requests 600 --faults 12
      pochade chaos --reuse --requests 600 --faults 30
      pochade chaos --components --engine diffusers --requests 200 --faults 12
      pochade chaos --scale --requests 720 --faults 15
      pochade chaos --only vectors-lie --only vectors-kill
    """
    from rich.console import Console

    from replay.reports.progress import open_reporter
    from replay.verify.chaos.options import ChaosOptions, run_name
    from replay.verify.chaos.run import ChaosRun
    from streams import settings

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    options, own = ChaosOptions(**asked), load()
    _check(options.only, options.brokers)
    with open_reporter(Console()) as teller:
        run = ChaosRun(own, settings.load(), options, run_name(options), teller)
        log_to(run.settings.home / "logs" / "chaos.log")
        report = run.run()
    report |= {"again": options.command(own.home), "home": str(run.settings.home)}
    _report(report, options.report or own.home / "chaos" / "report.json", run.settings.kafka.prefix)
    if not options.is_kept:
        run.clear()


def _check(asked: Sequence[str], brokers: int) -> None:
    from replay.verify.chaos.kinds import kinds

    if brokers == 2:
        raise PochadeError("--brokers 2: neither of two brokers may die; 3 or more go on with one less")
    known = kinds(brokers, with_reuse=True, with_components=True, is_scaled=True)
    for kind in asked:
        if kind not in known:
            raise Unknown("kind of fault", kind, known)


def _report(report: dict[str, Any], target: pathlib.Path, prefix: str) -> None:
    """Write and print the report. Raises PochadeError: a promise was broken; what to do then."""
    import json
    import shlex

    from replay.demo import write

    write(target, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    for label, value in lines(report).items():
        click.echo(f"{label:<20}{value}")
    click.echo(f"{'report':<20}{target}")
    if report["broken"]:
        home = shlex.quote(report["home"])
        again, kept = f"Again: `{report['again']}`.", f"All of it is kept in {report['home']}"
        if report["brokers"] > 1:
            raise PochadeError(f"{report['broken']}. {again} {kept}")
        raise PochadeError(
            f"{report['broken']}. {again} {kept}: "
            f"`pochade --home {home} up`, then `pochade --home {home} --set kafka.prefix={prefix} audit`"
        )


def lines(report: dict[str, Any]) -> dict[str, str]:
    """Return the report in a dozen lines."""
    from replay.verify.chaos.doing import NOT_DONE

    outcomes, recovery, oracle, images = (report[key] for key in ("outcomes", "recovery", "oracle", "pictures"))
    done = sum(not each["told"].startswith(NOT_DONE) for each in report["faults"])
    shown = {
        "accepted": str(report["accepted"]),
        "outcomes": ", ".join(f"{count} {status}" for status, count in outcomes.items()),
        "lost / duplicates": f"{report['lost']} / {report['duplicates']}",
        "counted outside": (
            f"{oracle['told']} acknowledged, {len(oracle['lost'])} without a result, {len(oracle['doubled'])} with "
            f"several, {oracle['gone']} deleted unread; the last ended {oracle['last_end_s']:g} s after the last fault"
        ),
        "late commits": str(report["late_commits"]),
        "generated twice": (
            f"{report['painted_twice']} of {report['painted']} jobs (limit {recovery['painted_twice_limit']:g}: "
            f"{recovery['running_at_kills']} ran as processes ended), {report['wasted_s']} worker seconds"
        ),
        "begun without image": str(report["begun_in_vain"]),
        "orphans": f"{report['orphans']}, {report['orphans_left']} left after they were collected",
        "images": f"{images['checked']} checked, {len(images['broken'])} broken",
        "dead letters": str(report["dead_letters"]),
        "faults": f"{done} of {len(report['faults'])}; the others met nothing",
        "jobs moved after": _longest(recovery["moved"], recovery["moved_limit_s"], "a worker's kill"),
        "first result after": _longest(recovery["first_result"], recovery["first_result_limit_s"], "the broker's port"),
    }
    if (lookups := report["lookups"]) is not None:
        found = sorted(report["reuse"].items(), key=lambda item: -item[1])
        shown["reuse"] = ", ".join(f"{count} {why}" for why, count in found) or "nothing was looked up"
        shown["marks"] = f"{images['marks_checked']} checked, {len(images['foreign'])} foreign"
        shown["lookups"] = f"p95 at most {lookups['max_p95_ms']:.0f} ms, breakers: {lookups['breakers'] or 'closed'}"
    if (components := report["components"]) is not None:
        shown["components"] = (
            f"{components['requests']} requests completed with the components that they named, "
            f"{len(components['misnamed'])} with others; {components['images']} images generated again, "
            f"{len(components['unlike'])} unlike (by at most {components['largest_difference']} of 255)"
        )
        moved = ", ".join(f"{size / 1e6:.1f} MB to {tier}" for tier, size in components["tiers"]["moved_bytes"].items())
        shown["components moved"] = f"{moved or 'nothing'}; {components['tiers']['loads']} loads that jobs waited for"
    if report["brokers"] > 1:
        shown["no result for"] = _longest(recovery["still"], recovery["still_limit_s"], "a broker's fault")
        shown["p99 back after"] = _longest(recovery["p99_back"], recovery["p99_back_limit_s"], "a broker's death")
    return {**shown, "too slow": "; ".join(report["too_slow"]) or "nothing"}


def _longest(waits: list[dict[str, Any]], limit_s: float, since: str) -> str:
    alone = [wait["seconds"] for wait in waits if not wait["beside"]]
    others = [wait["seconds"] for wait in waits if wait["beside"]]
    parts = [f"at most {max(alone):.1f} s after {since}, of {len(alone)} (limit {limit_s:g} s)"] if alone else []
    parts += [f"{max(others):.1f} s beside other faults, of {len(others)}"] if others else []
    return "; ".join(parts) or "nothing to report"
