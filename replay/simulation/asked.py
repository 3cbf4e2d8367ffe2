"""Builds the setups to simulate, one per policy, from the options of `pochade simulate` and the settings."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from planner.catalog.model import Catalog
from planner.components.tiers import Budgets
from planner.policies import DEFAULT, named
from replay.load.record.folder import read_run
from replay.simulation.clockwork import quotas_of, scale_of, timing_of
from replay.simulation.component_setup import ComponentSetup, budgets_of, check_budgets, evictions_of, needs_of
from replay.simulation.draws.hop_latencies import NO_LATENCIES, HopLatencies
from replay.simulation.draws.run_times import ASKED, IN_HOPS, Variation, measured_variation
from replay.simulation.failures import read_failures
from replay.simulation.session import OVERPROVISION, with_overprovision
from replay.simulation.setup import Setup, Timing, without_backlog_limits
from replay.simulation.shipped_latencies import hop_latencies, shipped_hop_latencies
from replay.traces import Trace
from schemas.errors import PochadeError
from streams.catalogs import measured, recorded_prompts
from streams.settings import Settings


def defaults_of(settings: Settings, catalog: Catalog, asked: Mapping[str, Any], *, is_own: bool) -> dict[str, Any]:
    """Return the options whose default is a deployment's setting. `is_own`: the requests are this deployment's own.

    What sheds load and learns in a deployment does so for its own requests, as its planner would have. For a file both
    stay off, whatever the settings: the commands that benches print give the same figures in every deployment.
    """
    planner = settings.planner
    found: dict[str, Any] = {"slo_s": asked["slo_s"] or planner.slo_s or catalog.slo_s}
    found["own_parameters"] = {planner.policy or DEFAULT: dict(planner.parameters)}
    live = {"sheds": planner.load_shedding, "learns": True}  # a live planner observes for every policy
    return found | {name: is_own and live[name] for name in live if asked[name] is None}


def setups_of(settings: Settings, catalog: Catalog, asked: Mapping[str, Any]) -> list[Setup]:
    """Return a setup for each policy named, in the order given. `asked`: the command's options by name.

    Raises:
        Unknown: a policy or a parameter is unknown; the message has the nearest.
        PochadeError: no policy, or an option that is not what it must be.
    """
    names = _policies(asked["policies"])
    truth = measured(asked["true_catalog"]) if asked["true_catalog"] else None
    if truth is not None:
        check_fits(catalog, truth)
        if asked["is_recorded"]:
            raise PochadeError("--recorded takes outcomes as they were recorded: leave --truth-catalog out")
    hops = _hop_latencies(asked)
    prompts = recorded_prompts(asked["catalog"] or settings.catalog) if asked["is_recorded"] else None
    common = Setup(
        catalog=catalog,
        truth=truth,
        policy=names[0],
        workers=asked["workers"],
        slo_ms=1000 * asked["slo_s"],
        seed=asked["seed"],
        period_ms=1000 * asked["period"] if asked["period"] else float(settings.planner.period_ms),
        forecast=settings.planner.forecast,
        hysteresis=settings.planner.hysteresis,
        quality_at_least=settings.planner.quality_at_least,
        learns=bool(asked["learns"]),  # None: no default was asked for, as of a file
        dispatch=asked["dispatch"] or "",
        drops=asked["drops"],
        sheds=bool(asked["sheds"]),
        prompts=prompts,
        redraws=asked["redraws"],
        timing=_timing(settings, asked, hops),
        variation=_variation(asked, catalog, hops),
        quotas=quotas_of(settings),
        features=settings.features,
        scale=scale_of(settings, asked),
        price_per_hour=asked.get("price_per_hour") or settings.worker.price_per_hour,
    )
    for name in common.scale.minimum:
        catalog.level(name)
    if asked["failures"]:
        common = dataclasses.replace(common, outages=read_failures(asked["failures"], common.worker_ids()))
    setups = [
        dataclasses.replace(
            common,
            policy=name,
            parameters=asked.get("own_parameters", {}).get(name, {}) | _parameters(asked["parameters"], name, names),
        )
        for name in names
    ]
    return _with_overprovision(setups, asked["overprovision"]) if asked["overprovision"] else setups


def _with_overprovision(setups: Sequence[Setup], factor: float) -> list[Setup]:
    """Return the setups with this over-provisioning where their policy has it. Raises PochadeError where none has."""
    found = [with_overprovision(setup, factor) for setup in setups]
    if not any(OVERPROVISION in setup.parameters for setup in found):
        names = ", ".join(setup.policy for setup in setups)
        raise PochadeError(f"--overprovision has no effect on {names}, which plan without it; leave it out")
    return found


def _policies(given: Sequence[str]) -> list[str]:
    """Return the names of the policies to simulate, each once. Raises Unknown, PochadeError where there is none."""
    names = list(dict.fromkeys(n.strip() for each in given for n in each.split(",") if n.strip()))
    if not names:
        raise PochadeError("--policy names none: give one, or several with commas")
    for name in names:
        named(name)
    return names


def _timing(settings: Settings, asked: Mapping[str, Any], hops: HopLatencies) -> Timing:
    """Return the times of a deployment; where nothing is shed, a request is admitted however much waits."""
    timing = timing_of(settings, loads=asked["loads"], hops=hops)
    if not asked["sheds"] and not settings.tenants:  # tenants' rights are shares of the backlog that is admitted
        return without_backlog_limits(timing)
    return timing


def check_fits(catalog: Catalog, true: Catalog) -> None:
    """Raise PochadeError unless all that plans may name is in the true catalog, on the same scale."""
    parts: Mapping[str, tuple[set[object], set[object]]] = {
        "variants": (set(catalog.variants), set(true.variants)),
        "discriminators": (set(catalog.discriminators), set(true.discriminators)),
        "cascades": ({pair.key for pair in catalog.cascades}, {pair.key for pair in true.cascades}),
    }
    for what, (planned, there) in parts.items():
        if missing := planned - there:
            names = ", ".join(sorted(str(name) for name in missing))
            raise PochadeError(f"the true catalog {true.name!r} lacks {what} that plans name: {names}")
    if catalog.scale != true.scale:
        raise PochadeError(f"the true catalog {true.name!r} is on the scale {true.scale}, plans on {catalog.scale}")


def _hop_latencies(asked: Mapping[str, Any]) -> HopLatencies:
    if not asked["has_hops"]:
        return NO_LATENCIES
    return hop_latencies(read_run(asked["measured"]).report) if asked["measured"] else shipped_hop_latencies()


def _variation(asked: Mapping[str, Any], catalog: Catalog, hops: HopLatencies) -> Variation:
    """Return how times vary: as measured, unless the options say otherwise."""
    measured = measured_variation(catalog)
    spread, origin = measured.run_cv, measured.origin
    if asked["run_cv"] is not None:
        spread, origin = {name: {1: asked["run_cv"]} for name in catalog.variants}, ASKED
    elif hops.paint or hops.paint_of:
        spread, origin = {}, IN_HOPS
    return Variation(run_cv=spread, origin=origin, speeds=asked["speeds"] or ())


def _parameters(given: Sequence[str], policy: str, policies: Sequence[str]) -> dict[str, float]:
    """Return the parameters of one policy; those without a policy's name are for all policies."""
    parameters = {}
    for assignment in given:
        key, _, value = assignment.partition("=")
        owner, _, name = key.rpartition(".")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number):
            raise PochadeError(f"--parameter must be [POLICY.]NAME=NUMBER: got {assignment!r}")
        if owner and owner not in policies:
            raise PochadeError(
                f"--parameter {assignment!r} is of a policy that is not simulated: {', '.join(policies)}"
            )
        if owner in ("", policy):
            parameters[name] = number
    return parameters


def with_components(
    setups: Sequence[Setup],
    trace: Trace,
    budgets: tuple[int, int, int] | None,
    evictions: Sequence[str],
    *,
    overlaps: bool,
) -> list[Setup]:
    """Return the setups with tiers of components, where the trace needs any; `budgets`: of volume, host and device.

    Raises PochadeError for budgets that a request does not fit, Unknown for an eviction or its policy.
    """
    rules = evictions_of(evictions, [setup.policy for setup in setups])
    needs = needs_of(trace, setups[0].catalog)
    if not needs:
        return list(setups)
    found = budgets_of(needs, setups[0].catalog, setups[0].workers)
    if budgets is not None:
        found = Budgets(volume=budgets[0], host=budgets[1], device=budgets[2])
        check_budgets(found, needs, setups[0].catalog)
    return [
        dataclasses.replace(
            setup, components=ComponentSetup(budgets=found, eviction=rules[setup.policy], overlaps=overlaps)
        )
        for setup in setups
    ]
