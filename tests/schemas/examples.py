"""Full values of the messages, written out: what the golden bytes of each schema id say."""

import dataclasses
from typing import Any

from schemas.messages import (
    Admission,
    ApiKey,
    CallTimes,
    Cascade,
    ClassifiedRequest,
    EndedChunk,
    Event,
    Expected,
    GenerateJob,
    GenerateOptions,
    GenerateRequest,
    Heartbeat,
    ImageGenerated,
    ImageRef,
    LatentRef,
    Made,
    OperatorAction,
    Outcome,
    OwnedPartition,
    Pin,
    Plan,
    PoisonMark,
    PromisedQuality,
    ResidencyPlan,
    Result,
    ReuseCheck,
    ReuseFloor,
    ReuseGuard,
    ReuseHealth,
    ReusePlan,
    ReuseStorage,
    Route,
    ScalePlan,
    Stage,
    StageReuse,
    Status,
    Webhook,
    WorkerComponents,
    WorkerDevice,
)

REQUEST = GenerateRequest(
    request_id="r-1", prompt="a red heart", created_ms=1_700_000_000_000, deadline_ms=1_700_000_005_000, seed=7
)
CLASSIFIED = ClassifiedRequest(
    request=REQUEST, hardness=0.25, classes={"models": "light"}, classifier="rules/1", received_ms=1_700_000_000_001,
    classified_ms=1_700_000_000_005,
)  # fmt: skip
IMAGE = ImageRef(uri="file:///images/x.png", sha256="ab" * 32, width=32, height=32, bytes=512)
STEP = Stage(
    stage=0, level="light", worker_id="w-1", plan_version=3, queue_ms=4, generate_ms=20, batch=1, attempt=1,
    confidence=0.4, threshold=0.5, image=IMAGE,
)  # fmt: skip
JOB = GenerateJob(
    job_id="j-1", classified=CLASSIFIED, level="heavy", variant="heavy", stage=1, attempt=1, probability=0.75,
    plan_version=3, worker_id="w-2", routed_ms=1_700_000_000_040, path=(STEP,),
)  # fmt: skip
FIRST = (
    REQUEST,
    CLASSIFIED,
    JOB,
    ImageGenerated(
        job=JOB, image=IMAGE, worker_id="w-2", batch=2, attempt=1, started_ms=1_700_000_000_050,
        generated_ms=1_700_000_000_450, stored_ms=1_700_000_000_455,
    ),
    Outcome(
        request_id="r-1", status=Status.COMPLETED, reason="kept", by="discriminator", ended_ms=1_700_000_000_460,
        request=REQUEST, classified=CLASSIFIED, path=(STEP,), policy="p",
    ),
    Result(
        request_id="r-1", status=Status.COMPLETED, reason="kept", prompt="a red heart", tenant="default",
        image_uri=IMAGE.uri, image_sha256=IMAGE.sha256, width=32, height=32, level="heavy", worker_id="w-2", policy="p",
        plan_version=3, hardness=0.25, class_models="light", confidence=None, threshold=None, escalated=True,
        generate_ms=420, latency_ms=460, created_ms=1_700_000_000_000, ended_ms=1_700_000_000_460, path="[]",
    ),
    Event(request_id="r-1", kind="escalated", at_ms=1_700_000_000_030, by="discriminator", detail='{"to": "heavy"}'),
    Plan(
        version=3, policy="p", strategy="models", created_ms=1_700_000_000_000, reason="because",
        routes=(Route(levels={"light": 1.0}, hardness_from=0.0, hardness_to=1.0),),
        cascades=(Cascade(level="light", next_level="heavy", discriminator="look", threshold=0.5),),
        allocation={"w-1": "light"}, batch={"light": 2}, dispatch="least-work",
        expected=Expected(demand_rps=4.0, utilization=0.5, heavy_share=0.3, quality=0.9), memory="{}",
    ),
    Pin(policy="p", parameters={"threshold": 0.5}, by="me", created_ms=1_700_000_000_000),
    Heartbeat(
        worker_id="w-1", state="ready", variant="light", plan_version=3, sent_ms=1_700_000_000_000,
        partitions=(OwnedPartition(partition=1, end_offset=9, remaining_ms=40),), generated=5, detail="",
    ),
)  # fmt: skip

# the same with the fields that came later; ids 11 to 16
ASKED = dataclasses.replace(
    REQUEST, quality="high", tier="interactive",
    options=GenerateOptions(
        n=2, width=64, height=48, steps=9, guidance=1.5, negative_prompt="blur", model="heavy", adapters=("ink",),
        controls=("edges",), strict=True,
    ),
)  # fmt: skip
JUDGED = dataclasses.replace(CLASSIFIED, request=ASKED)
STAGE = dataclasses.replace(STEP, more=(IMAGE,), overridden=("steps: 9 -> 1",))
TASK = dataclasses.replace(JOB, classified=JUDGED, path=(STAGE,), overridden=("width: 64 -> 32",))
LATER = (
    ASKED,
    JUDGED,
    TASK,
    dataclasses.replace(FIRST[3], job=TASK, more=(IMAGE, IMAGE)),
    dataclasses.replace(
        FIRST[4], request=ASKED, classified=JUDGED, path=(STAGE,), code="overloaded", retry_after_ms=1500
    ),
    dataclasses.replace(
        FIRST[5], image_uris=("file:///a", "file:///b"), overridden=("steps: 9 -> 1",), code="quota", retry_after_ms=9
    ),
)
# the same over a draft; ids 17 to 20
OVER = dataclasses.replace(TASK, path=(dataclasses.replace(STAGE, refine_from_step=1),), refine_from_step=3)
PAINTED_OVER = (
    OVER,
    dataclasses.replace(LATER[3], job=OVER, refine_from_step=3),
    dataclasses.replace(LATER[4], path=(dataclasses.replace(STAGE, refine_from_step=3),)),
    dataclasses.replace(
        FIRST[7], cascades=(Cascade(level="light", next_level="heavy", discriminator="look", threshold=0.5,
                                    refine_from_step=3),),
    ),
)  # fmt: skip
BACK = (Pin(policy="", by="me", created_ms=1_700_000_000_000, plan_version=12),)  # to a plan; id 21
# a step that holds how probable its level was; ids 22 to 24
DRAWN = dataclasses.replace(OVER, path=(dataclasses.replace(STAGE, probability=0.75),))
DRAWN_BY_CHANCE = (
    DRAWN,
    dataclasses.replace(LATER[3], job=DRAWN),
    dataclasses.replace(LATER[4], path=(dataclasses.replace(STAGE, probability=0.75),)),
)
# a plan that lets in a share; id 25
SHED = (
    dataclasses.replace(
        PAINTED_OVER[3], admission=Admission(shares={"batch": 0.0}, reason="shed: ...", retry_after_ms=5000)
    ),
)
# what a ledger remembers; id 26
REMEMBERED = (
    EndedChunk(
        partition=3, results_topic="MkU3OEVBNTcwNTJENDM2Qg", first_offset=120, end_offset=127,
        oldest_ms=1_700_000_000_460, newest_ms=1_700_000_009_460, digests=bytes(range(24)),
        classified_topic="bFVQMkU3OEVBNTcwNTJENA", classified_offset=140, open=bytes(range(28)),
    ),
)  # fmt: skip
# begun from a stored latent, and itself stored; ids 27 to 34
OWN = dataclasses.replace(ASKED, options=dataclasses.replace(ASKED.options, reuse="own"))
OWN_JUDGED = dataclasses.replace(JUDGED, request=OWN)
BEGUN = StageReuse(step=4, steps=10, similarity=0.875)
LATENT = LatentRef(uri="file:///images/x.safetensors", sha256="cd" * 32, bytes=640, autoencoder="0123456789abcdef")
REUSED = dataclasses.replace(STAGE, probability=0.75, discriminator="look", reuse=BEGUN, latent=LATENT)
REUSING = dataclasses.replace(DRAWN, classified=OWN_JUDGED, path=(REUSED,), level="heavy~k4", reuse_share=0.4)
REUSE = (
    OWN,
    OWN_JUDGED,
    REUSING,
    dataclasses.replace(LATER[3], job=REUSING, reuse=StageReuse(steps=10, miss="floor"), latent=LATENT),
    dataclasses.replace(LATER[4], request=OWN, classified=OWN_JUDGED, path=(REUSED,)),
    dataclasses.replace(LATER[5], reused=True, reuse_step=4, similarity=0.875, reuse_miss="guard"),
    dataclasses.replace(
        SHED[0], strategy="reuse",
        reuse=ReusePlan(
            floors=(ReuseFloor(similarity=0.75, share=0.25), ReuseFloor(similarity=0.9, share=0.5)),
            guard=ReuseGuard(equal=0.5, style=0.25, unsure=0.125, differs={"count": 0.0}),
            check=ReuseCheck(discriminator="look", threshold=0.5, scored_share=0.25), key="scorer",
            storage=ReuseStorage(share=0.5, ttl_s=60.0, max_bytes=1024, eviction="lcbfu", tenant_rps=2.0,
                                 tenant_burst=4.0),
            hits={"heavy~k4": 0.5},
        ),
    ),
    dataclasses.replace(
        FIRST[9], reuse=ReuseHealth(breaker="closed", lookups=20, unanswered=0.25, p50_ms=1.5, p95_ms=9.0, hits=3,
                                    misses={"floor": 2}),
    ),
)  # fmt: skip
# with components, and the times of a call; ids 35 to 40
COMPOSED = dataclasses.replace(
    OWN, options=dataclasses.replace(
        OWN.options, adapter_weights=(0.5,), control_images=("file:///images/c.png",), control_weights=(0.75,),
        image="file:///images/i.png", strength=0.25, mask="file:///images/m.png",
    ),
)  # fmt: skip
COMPOSED_JUDGED = dataclasses.replace(JUDGED, request=COMPOSED)
PARTS = ("base:poster", "adapter:ink@0.5")
TIMES = CallTimes(load_ms=0.5, encode_ms=1.5, denoise_ms=20.0, decode_ms=2.5)
COMPOSED_STAGE = dataclasses.replace(REUSED, components=PARTS, times=TIMES)
COMPOSING = dataclasses.replace(REUSING, classified=COMPOSED_JUDGED, path=(COMPOSED_STAGE,))
COMPONENTS = (
    COMPOSED,
    COMPOSED_JUDGED,
    COMPOSING,
    dataclasses.replace(LATER[3], job=COMPOSING, components=PARTS, times=TIMES),
    dataclasses.replace(LATER[4], request=COMPOSED, classified=COMPOSED_JUDGED, path=(COMPOSED_STAGE,)),
    dataclasses.replace(LATER[5], components=PARTS, load_ms=0.5, encode_ms=1.5, denoise_ms=20.0, decode_ms=2.5),
)
# which worker holds which component, and how many workers there should be; ids 41 and 42
FLEET = (
    dataclasses.replace(
        REUSE[6],
        residency=ResidencyPlan(
            workers={"w-1": {"adapter:ink": "host", "base:poster": "device"}, "w-2": {}}, memory='{"a":1}'
        ),
        scale=ScalePlan(targets={"heavy": 4}, wanted={"heavy": 5}, reasons={"heavy": "grow"}, warm=2, memory='{"b":2}'),
    ),
    dataclasses.replace(
        REUSE[7], components=WorkerComponents(
            held={"device": ("base:poster",), "host": ("adapter:ink", "base:poster")},
            held_bytes={"device": 10, "host": 12}, budget_bytes={"device": 16}, hits={"device": 3, "remote": 1},
            moved_bytes={"volume": 12}, loads=1,
        ),
    ),
)  # fmt: skip
# by whom the gateway is asked; id 43
KEYS = (
    ApiKey(
        key_id="0123456789abcdef", digest="0123456789abcdef" * 4, tenant="studio", scopes=("generate", "read"),
        created_ms=1_700_000_000_000, expires_ms=1_700_086_400_000, name="laptop", by="me",
        revoked_ms=1_700_000_060_000,
    ),
)  # fmt: skip
SLOW = dataclasses.replace(FLEET[1], slowness=1.25)  # how slow a worker's calls are; id 44
# to whom a request's end is told; id 45
TOLD = Webhook(
    request_id="r-1", tenant="studio", url="https://studio.example/told?secret=x", events=("start", "completed"),
    base_url="https://images.example", created_ms=1_700_000_000_000, told=("start",), pending="completed", attempts=2,
    next_ms=1_700_000_004_000,
)  # fmt: skip
# what the safety check says of images; ids 46 to 49
CHECKED = dataclasses.replace(LATER[3].image, unsafe=0.75, safety="blur")
CHECKED_STAGE = dataclasses.replace(COMPOSED_STAGE, image=CHECKED)
CHECKING = dataclasses.replace(COMPOSING, path=(CHECKED_STAGE,))
SAFETY = (
    CHECKING,
    dataclasses.replace(COMPONENTS[3], job=CHECKING, image=CHECKED),
    dataclasses.replace(COMPONENTS[4], path=(CHECKED_STAGE,)),
    dataclasses.replace(COMPONENTS[5], unsafe=0.75, safety="blur"),
)
# what was changed by way of the console; id 50
ACTED = OperatorAction(
    action_id="a-1", by="0123456789abcdef", name="night shift", action="pin", subject="joint",
    at_ms=1_700_000_000_000, detail='{"heavy_share":0.3}', outcome="pinned",
)  # fmt: skip
# the content of a request that ended its workers; id 51
MARK = PoisonMark(salt="ab" * 16, digest="cd" * 32)
# which field of a request is at fault; ids 52 and 53
AT_FAULT = (dataclasses.replace(SAFETY[2], param="width"), dataclasses.replace(SAFETY[3], param="seed"))
# a plan that says what its expected quality rests on; id 54
SURE = dataclasses.replace(
    FLEET[0],
    expected=Expected(
        demand_rps=4.0, utilization=0.5, heavy_share=0.3, quality=0.9, quality_low=0.87, quality_high=0.92,
        quality_prompts=2000, evidence="heavy gains +0.200 [+0.180, +0.220] of quality (2,000 prompts) over light",
    ),
)  # fmt: skip
# a job that says which options are honoured; ids 55 and 56
HONOURING = dataclasses.replace(SAFETY[0], honoured=("steps", "negative_prompt"))
HONOURED = (HONOURING, dataclasses.replace(SAFETY[1], job=HONOURING))
# a worker that says which device it has; id 59
ON_A_CARD = dataclasses.replace(
    SLOW,
    device=WorkerDevice(
        device="cuda:0", index=3, uuid="GPU-8f6a1c2d", model="NVIDIA H200", used_bytes=71 << 30, free_bytes=69 << 30,
        temperature_c=64, utilisation=0.97, age_ms=400,
    ),
)  # fmt: skip


def stating(**options: Any) -> tuple[Any, ...]:
    """Return the five messages that carry options, with some of them stated: an option's own are of five new ids."""
    request = dataclasses.replace(COMPOSED, options=dataclasses.replace(COMPOSED.options, **options))
    judged = dataclasses.replace(COMPOSED_JUDGED, request=request)
    job = dataclasses.replace(HONOURING, classified=judged, honoured=tuple(options))
    return (
        request,
        judged,
        job,
        dataclasses.replace(HONOURED[1], job=job),
        dataclasses.replace(AT_FAULT[0], request=request, classified=judged),
    )


def _sick() -> tuple[GenerateJob, ImageGenerated]:
    """A job that two workers have failed with, one of them for good, and its images."""
    job = dataclasses.replace(HONOURED[0], failed_on=("w-1", "w-2"), deaths=1)
    return job, dataclasses.replace(HONOURED[1], job=job)


SICK = _sick()


def _promised() -> tuple[Any, ...]:
    """A request that states a quality, what was promised of its image, and a plan that promises it; ids 60 to 66."""
    *asked, outcome = stating(quality_at_least=0.9)
    promise = PromisedQuality(
        wrong_at_most=0.1, confidence=0.95, images=16_000, date="2026-11-29", standard="all stated facts hold"
    )
    path = (dataclasses.replace(outcome.path[0], promise=promise),)
    result = dataclasses.replace(AT_FAULT[1], wrong_at_most=0.1)
    return *asked, dataclasses.replace(outcome, path=path), result, dataclasses.replace(SURE, quality_at_least=0.9)


PROMISED = _promised()


def _made() -> tuple[Any, ...]:
    """What is said of how an image was made; ids 67 to 70."""
    made = Made(
        variant="heavy", seed=2**40, steps=9, guidance=1.5, width=48, height=32, negative_prompt="rain",
        begins_with="draft", from_step=3, strength=0.5, scheduler="DDIMScheduler", model="a/b@0123",
        weights={"model": "ab" * 32, "adapter:ink@0.5": ""}, engine="diffusers 0.36.0, torch 2.9.1", device="cpu",
        dtype="float32",
    )  # fmt: skip
    _, _, job, image, outcome, result, _ = PROMISED
    path = (dataclasses.replace(outcome.path[0], made=made),)
    job = dataclasses.replace(job, path=path)
    image = dataclasses.replace(image, job=job, made=made)
    return job, image, dataclasses.replace(outcome, path=path), dataclasses.replace(result, made=made)


MADE = _made()


def _priced() -> tuple[Any, ...]:
    """What workers cost; ids 71 to 75."""
    job, image, outcome, result = MADE
    made = dataclasses.replace(image.made, price_per_hour=2.5)
    path = (dataclasses.replace(outcome.path[0], made=made),)
    job = dataclasses.replace(job, path=path)
    image, outcome = dataclasses.replace(image, job=job, made=made), dataclasses.replace(outcome, path=path)
    result = dataclasses.replace(result, made=made, cost=0.0015)
    return job, image, outcome, result, dataclasses.replace(ON_A_CARD, price_per_hour=2.5)


PRICED = _priced()
HOLDING = dataclasses.replace(SURE, holds=True)
BEGUN = dataclasses.replace(PRICED[-1], started_ms=1_790_000_000_000)
EXAMPLE_OF = dict(
    enumerate(
        (
            *(*FIRST, *LATER, *PAINTED_OVER, *BACK, *DRAWN_BY_CHANCE, *SHED, *REMEMBERED, *REUSE, *COMPONENTS, *FLEET),
            *KEYS,
            SLOW,
            TOLD,
            *SAFETY,
            ACTED,
            MARK,
            *AT_FAULT,
            SURE,
            *HONOURED,
            *SICK,
            ON_A_CARD,
            *PROMISED,
            *MADE,
            *PRICED,
            HOLDING,
            BEGUN,
        ),
        start=1,
    )
)  # schema id -> what its golden bytes say
