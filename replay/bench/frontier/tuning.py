"""The settings that policies are compared with: chosen on the tuning traces alone, in a file that is committed.

For each catalog, policy and level of violations: the swept setting of the best quality over the tuning traces, among
those whose mean violations, with one standard error added, are at most so many; where none has so few, the one with
the fewest. The error is that of the redraws, as the traces are given: what only chance keeps within a level is not
taken. All policies have the same budget. Quality is that of the run, by the mean of both bounds.
"""

import math
import pathlib
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from replay.bench.frontier.cells import Figures
from replay.bench.frontier.grid import LEVELS, GridCell, Parameters, Setting
from schemas.errors import PochadeError

COMMITTED = pathlib.Path(__file__).with_name("settings.toml")
HEAD = """# Chosen by `pochade bench frontier --tune` on the tuning traces (TUNING in papers/runs/arrivals.py),
# with the catalog as the truth. Of each policy at most one a level of violations; do not edit: run it again.
"""

Chosen = Mapping[str, Sequence[Setting]]
"""catalog -> settings, of every policy one or more."""


def choose(results: Iterable[tuple[GridCell, Figures]]) -> dict[str, list[Setting]]:
    """Return the settings of each catalog, from the results on the tuning traces."""
    found: defaultdict[str, defaultdict[Setting, dict[str, list[Figures]]]] = defaultdict(lambda: defaultdict(dict))
    for cell, figures in results:
        found[cell.catalog][cell.setting].setdefault(cell.trace, []).append(figures)
    return {catalog: _of_catalog(by_setting) for catalog, by_setting in found.items()}


def _of_catalog(by_setting: Mapping[Setting, Mapping[str, Sequence[Figures]]]) -> list[Setting]:
    means = {setting: (_violations(runs), _quality(runs)) for setting, runs in by_setting.items()}
    chosen = []
    for policy in dict.fromkeys(setting.policy for setting in means):
        own = {setting: mean for setting, mean in means.items() if setting.policy == policy}
        for level in LEVELS:
            within = [setting for setting, (violations, _) in own.items() if violations <= level]
            chosen.append(max(within, key=lambda s: own[s][1]) if within else min(own, key=lambda s: own[s][0]))
    return list(dict.fromkeys(chosen))


def _violations(by_trace: Mapping[str, Sequence[Figures]]) -> float:
    """Mean over the traces, and one standard error of it; with one redraw of each its error is not known, and is 0."""
    rates = [[run["violation_rate"] for run in runs] for runs in by_trace.values()]
    mean = statistics.fmean(statistics.fmean(of_trace) for of_trace in rates)
    squares = (statistics.variance(of_trace) / len(of_trace) for of_trace in rates if len(of_trace) > 1)
    return mean + math.sqrt(math.fsum(squares)) / len(rates)


def _quality(by_trace: Mapping[str, Sequence[Figures]]) -> float:
    """Mean over the traces."""
    both = [[(run["quality_run"] + run["quality_run_optimistic"]) / 2 for run in runs] for runs in by_trace.values()]
    return statistics.fmean(statistics.fmean(of_trace) for of_trace in both)


def write(chosen: Chosen, file: pathlib.Path) -> None:
    """Write the settings as TOML."""
    lines = [HEAD]
    for catalog, settings in chosen.items():
        for policy, parameters in settings:
            inner = ", ".join(f"{name} = {value:g}" for name, value in parameters)
            lines.append(f'[[{catalog}]]\npolicy = "{policy}"\nparameters = {{ {inner} }}\n')
    file.write_text("\n".join(lines), encoding="utf-8")


def read(file: pathlib.Path = COMMITTED) -> dict[str, list[Setting]]:
    """Read the settings. Raises PochadeError for a file that has none."""
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
        return {
            catalog: [Setting(row["policy"], _parameters(row["parameters"])) for row in rows]
            for catalog, rows in found.items()
        }
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise PochadeError(f"{file} has no settings of policies: {error}; choose some with --tune") from error


def _parameters(given: Mapping[str, float]) -> Parameters:
    return tuple(sorted((name, float(value)) for name, value in given.items()))
