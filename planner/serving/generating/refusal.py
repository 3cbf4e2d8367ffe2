"""Why a worker refuses a job whose record it can read."""

from planner.catalog.components import Offer, needs_components, unhonoured
from planner.serving.decisions import POISON, UNHONOURED, Rejection
from schemas.messages import GenerateOptions, Status


def refusal_of(options: GenerateOptions, offer: Offer, equal: str | None) -> Rejection | None:
    """Return why a request is refused; None: it is not.

    `equal`: the id of an equal request that ended its workers lately. `offer`: of the worker's variant: a router of
    another catalog may have sent what it cannot generate with.
    """
    if equal is not None:
        reason = f"request {equal} with this prompt and these options ended its workers: change one or wait an hour"
        return Rejection(Status.REJECTED, POISON, reason)
    fault = unhonoured(options, offer) if needs_components(options) else None
    return fault and Rejection(Status.REJECTED, UNHONOURED, fault.reason, param=fault.param)
