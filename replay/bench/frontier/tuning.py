"""The settings that policies are compared with: chosen on the tuning traces alone, in a file that is committed.

For each catalog, policy and level of violations: the swept setting of the best quality over the tuning traces, among
those whose violations plus one standard error are within the level on each trace, as policies are compared on each
trace; if there is none, the one with the fewest on its worst trace. The error is that of the redraws: a setting that
only chance keeps within a level is not taken. All policies have the same budget. Quality is that of the run, by the
mean of both bounds and of the traces.
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
    """Those of the worst trace: its mean, and one standard error, which is not known, and 0, with one redraw."""
    return max(_of_trace([run["violation_rate"] for run in runs]) for runs in by_trace.values())


def _of_trace(rates: Sequence[float]) -> float:
    error = statistics.stdev(rates) / math.sqrt(len(rates)) if len(rates) > 1 else 0.0
    return statistics.fmean(rates) + error


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


def fewest_violations(catalog: str, policy: str) -> Parameters:
    """The first setting of a policy that ships for a catalog: that which was chosen for the fewest violations."""
    return next(setting.parameters for setting in read()[catalog] if setting.policy == policy)


def _parameters(given: Mapping[str, float]) -> Parameters:
    return tuple(sorted((name, float(value)) for name, value in given.items()))
