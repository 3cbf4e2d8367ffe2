"""A burst that cheaper levels can take: Pochade with a light and a heavy level beside Ray Serve with the heavy one.

Heavy takes 1 s, light 100 ms; the default policy plans each second for the deadline. Both sides are configured with
the deadline, as `gateway.wait_s` and as `request_timeout_s`, so that neither generates images for clients that have
gone. Quality is that of the catalog: heavy 1, light .8.
"""

import pathlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from replay.bench.environment.site import Site
from replay.bench.gateway.serving import LAYOUT
from replay.bench.peers.load import Answered, at_times, in_turn
from replay.bench.peers.sides import POCHADE, RAY, Work, pochade_side, serving, started
from replay.traces import poisson

LIGHT, HEAVY = "light", "heavy"
HEAVY_S: Final = 1.0  # of an image
CATALOG: Final = """
[variants.light]
engine = "profile"
model = ""
scheduler = ""
steps = 2
guidance = 1.0
width = 192
height = 128
latency_ms = { 1 = 100 }
load_ms = 50
quality = 0.8

[variants.heavy]
engine = "profile"
model = ""
scheduler = ""
steps = 25
guidance = 2.0
width = 192
height = 128
latency_ms = { 1 = 1000 }
load_ms = 50
quality = 1.0

[discriminators.look]
engine = "profile"
folder = ""
threshold = 0.3
deferral = [{ threshold = 0.0, deferred = 0.0 }, { threshold = 1.0, deferred = 1.0 }]
latency_ms = 1

[[cascades]]
light = "light"
heavy = "heavy"
discriminator = "look"

[classes]
models = [{ level = "light", hardness = 0.7 }, { level = "heavy", hardness = 1.0 }]
"""
QUALITY: Final = {LIGHT: 0.8, HEAVY: 1.0}
PERIOD_MS: Final = 1000
DEADLINE_S: Final = 5.0
WARM: Final = 4


def burst_of(steady: float, times: float, burst_s: float) -> list[float]:
    """Return arrivals in ms: calm at `steady` a second, as long a burst of `times` as many, and calm again."""
    calm = poisson(steady, max(3, round(steady * burst_s)), 2)
    crowd = [burst_s * 1000 + at_ms for at_ms in poisson(times * steady, round(times * steady * burst_s), 3)]
    after = [2 * burst_s * 1000 + at_ms for at_ms in poisson(steady, max(3, round(steady * burst_s)), 4)]
    return [*calm, *crowd, *after]


def with_levels(
    site: Site, *, sides: Sequence[str], python: pathlib.Path, workers: int, arrivals_ms: Sequence[float],
    notify: Callable[[str], object],
) -> dict[str, Any]:  # fmt: skip
    """Measure the burst on Pochade with two levels, and on Ray Serve with heavy alone, as far as they are asked for."""
    measured: dict[str, Any] = {}
    if POCHADE in sides:
        notify(f"{POCHADE}: a burst, with two levels")
        planner = site.settings.planner.model_copy(update={"slo_s": DEADLINE_S, "period_ms": PERIOD_MS})
        gateway = site.settings.gateway.model_copy(update={"wait_s": DEADLINE_S})
        file = site.settings.home / "levels.toml"
        file.write_text(CATALOG)
        settings = site.fresh("levels", [LIGHT, HEAVY], catalog=str(file), planner=planner, gateway=gateway)
        crew = [f"{settings.kafka.prefix}-{number}" for number in range(workers)]
        with started(pochade_side(site, settings, crew, (*LAYOUT, ("planner",))), site) as side:
            in_turn(side.url, WARM)
            measured[POCHADE] = figures(at_times(side.url, arrivals_ms))
    if RAY in sides:
        notify(f"{RAY}: a burst, with the heavy level alone")
        with serving(RAY, site, Work(workers, HEAVY_S, DEADLINE_S), python) as side:
            in_turn(side.url, WARM)
            measured[RAY] = figures(at_times(side.url, arrivals_ms), HEAVY)
    return measured


def figures(answers: Sequence[Answered], only: str = "") -> dict[str, Any]:
    """Return what share was in time, by which level, and the mean quality of what was. `only`: a side's one level."""
    in_time = [each.level or only for each in answers if each.has_image and each.took_ms <= 1000 * DEADLINE_S]
    by_level = Counter(in_time)
    quality = sum(QUALITY[level] for level in in_time)
    return {
        "requests": len(answers),
        "deadline_s": DEADLINE_S,
        "in_time": round(len(in_time) / len(answers), 4),
        "of_these_heavy": round(by_level[HEAVY] / len(in_time), 4) if in_time else None,
        "quality_in_time": round(quality / len(in_time), 4) if in_time else None,
        "quality_of_all": round(quality / len(answers), 4),  # none in time: 0
    }
