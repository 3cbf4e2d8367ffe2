"""A placement to the job that it becomes, for the roles that place requests: router, discriminator and worker."""

from planner.serving.routing.placement import Placement
from schemas import ids
from schemas.messages import ClassifiedRequest, GenerateJob, Stage


def placed_job(
    classified: ClassifiedRequest,
    placement: Placement,
    share: float,
    *,
    plan_version: int,
    now_ms: int,
    path: tuple[Stage, ...] = (),
    attempt: int = 1,
) -> GenerateJob:
    """The job of a placement, without a worker. `share`: of its steps, that its level lets a stored latent save.

    `attempt`: number of owners that the job will have met, the next one included.
    """
    return GenerateJob(
        job_id=ids.job_id(classified.request.request_id, len(path), placement.level),
        classified=classified,
        level=placement.level,
        variant=placement.variant,
        stage=len(path),
        attempt=attempt,
        probability=placement.probability,
        plan_version=plan_version,
        worker_id="",
        routed_ms=now_ms,
        path=path,
        overridden=placement.overridden,
        refine_from_step=0 if share else placement.options.refine_from_step,
        reuse_share=share,
    )
