"""What a job carries of its options: read again it is what its sender resolved, whatever the reader's catalog says."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from planner.catalog.components import unhonoured
from planner.catalog.entries import Variant
from planner.catalog.options import honoured, job_options, resolve_options
from schemas.messages import GenerateJob, GenerateOptions
from streams.codec.avro import decode, encode, write_up_to
from tests.builders import a_classified, a_job, a_request, a_variant, composed_variant

ALL = ("steps", "guidance", "width", "height", "negative_prompt")
FIXED, FREE = a_variant(steps=4), a_variant(steps=10, honours=ALL)
VARIANTS = (FIXED, FREE, a_variant(honours=("steps", "width")), composed_variant(honours=("image", "mask", "steps")))
OPTIONS = st.builds(
    GenerateOptions,
    n=st.integers(1, 3),
    width=st.sampled_from((None, 32, 64)),
    height=st.sampled_from((None, 32, 64)),
    steps=st.sampled_from((None, 1, 2, 4, 9)),
    guidance=st.sampled_from((None, 1.0, 0.0, 7.5)),
    negative_prompt=st.sampled_from(("", "blur")),
    model=st.sampled_from(("", "light", "chalk", "poster")),
    adapters=st.sampled_from(((), ("candy",), ("frost",))),
    adapter_weights=st.sampled_from(((), (0.5,))),
    controls=st.sampled_from(((), ("outline",))),
    image=st.sampled_from(("", "file:///a.png")),
    strength=st.sampled_from((None, 0.5)),
)


def sent(options: GenerateOptions, by: Variant, refine_from_step: int = 0) -> GenerateJob:
    """A job as a sender whose catalog has this variant writes it, and as a reader has it."""
    how = resolve_options(options, by, refine_from_step)
    job = a_job(
        a_classified(a_request(options=options)), overridden=how.overridden, refine_from_step=refine_from_step,
        honoured=honoured(options, how),
    )  # fmt: skip
    return decode(encode(job), GenerateJob)


@given(options=OPTIONS, variant=st.sampled_from(VARIANTS), step=st.integers(0, 9))
def test_a_job_is_generated_as_its_sender_resolved_it(options: GenerateOptions, variant: Variant, step: int) -> None:
    if not unhonoured(options, variant.offer):  # a router rejects what names components that are not honoured
        assert job_options(sent(options, variant, step), variant) == resolve_options(options, variant, step)


@given(options=OPTIONS, variant=st.sampled_from(VARIANTS), step=st.integers(0, 9))
def test_a_job_that_carries_no_options_has_them_resolved(options: GenerateOptions, variant: Variant, step: int) -> None:
    job = dataclasses.replace(sent(options, FREE, step), honoured=None)
    assert job_options(job, variant) == resolve_options(options, variant, step)


def test_which_options_are_honoured_says_the_senders_catalog_and_the_variants_own_values_the_readers() -> None:
    stated = GenerateOptions(steps=9, negative_prompt="blur", n=2)
    how = job_options(sent(stated, by=FREE), dataclasses.replace(FIXED, width=48, guidance=3.0))
    assert (how.n, how.steps, how.negative_prompt, how.width, how.guidance) == (2, 9, "blur", 48, 3.0)
    assert how.overridden == ()
    kept = job_options(sent(stated, by=FIXED), FREE)
    assert (kept.n, kept.steps, kept.negative_prompt) == (2, FREE.steps, "")
    assert kept.overridden == ("steps: 9 -> 4", "negative_prompt: blur -> none")


def test_an_option_that_states_what_the_senders_variant_does_anyway_is_kept_where_the_readers_does_otherwise() -> None:
    assert job_options(sent(GenerateOptions(steps=4), by=FIXED), FREE).steps == 4


def test_a_step_to_begin_at_that_the_reader_does_not_have_counts_as_none() -> None:
    assert job_options(sent(GenerateOptions(), FREE, 5), FREE).refine_from_step == 5
    assert job_options(sent(GenerateOptions(), FREE, 5), FIXED).refine_from_step == 0


def test_names_that_are_no_options_of_this_release_change_nothing() -> None:
    job = dataclasses.replace(sent(GenerateOptions(steps=9), FREE), honoured=("steps", "sampler"))
    assert job_options(job, FREE) == resolve_options(GenerateOptions(steps=9), FREE)


def test_a_job_grows_by_two_bytes_and_the_names_of_what_is_honoured_and_older_releases_read_it() -> None:
    for options, size in ((GenerateOptions(), 2), (GenerateOptions(steps=9, negative_prompt="x"), 3 + 6 + 16)):
        job = sent(options, FREE)
        try:
            write_up_to(54)  # the release before
            older = encode(job)
            write_up_to(56)  # the first that says it
            newer = encode(job)
        finally:
            write_up_to(0)
        assert len(newer) - len(older) == size
        assert decode(older, GenerateJob) == dataclasses.replace(job, honoured=None)
