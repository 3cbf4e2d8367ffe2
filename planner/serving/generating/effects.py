"""What a window of jobs asks its driver to do (effects), and what the driver answers.

An effect with an id is open until an answer with that id comes; several may be open. The others are carried out in
the order in which they come, and answered with nothing.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from planner.serving.routing.placement import Placement
from schemas.messages import Status

J = TypeVar("J")


class Fault(StrEnum):
    """Whose fault it is that a call has failed."""

    JOB = "job"  # no worker can ever generate what it asks for: it is REJECTED
    IMAGE = "image"  # what was generated is no image, as of a model that made NaN
    MODEL = "model"  # any other error: of the model, or of a library
    MEMORY = "memory"  # the device, or the machine, has too little
    DEVICE = "device"  # the process must have a new context of its device
    CLIENT = "client"  # a store that components come from, a server that the engine asks, or the broker


class Fetch(NamedTuple, Generic[J]):
    """Open what these jobs begin with: the images that their requests name, and their drafts. Answer: `Fetched`."""

    id: int
    jobs: Sequence[J]


class LookUp(NamedTuple, Generic[J]):
    """Look up the stored latents that these jobs may begin from. Answer: `Done`, once each knows how it begins."""

    id: int
    jobs: Sequence[J]


class Call(NamedTuple, Generic[J]):
    """Generate these jobs in one call of the engine. Answer: `Called`, `Stopped`, `Unfit` or `CallFailed`."""

    id: int
    jobs: list[J]
    has_ended: Callable[[J], bool]
    most: int = 0  # images that the device has memory for at once; 0: no limit is known

    def should_stop(self) -> bool:
        """Whether nothing of the call is wanted any more; asked between denoising steps."""
        return all(map(self.has_ended, self.jobs))


class Keep(NamedTuple, Generic[J]):
    """Check the images of these jobs, store those that may be shown, and send the stored ones on. Answer: `Kept`."""

    id: int
    jobs: list[J]


class Check(NamedTuple):
    """Generate an image that no request asks for, as jobs in a row have failed. Answer: `Done` or `CallFailed`."""

    id: int


class Wait(NamedTuple, Generic[J]):
    """Let these jobs wait for a store that is away: no watchdog runs meanwhile, and no job of the window is to blame.

    Answer: `Done`.
    """

    id: int
    jobs: Sequence[J]
    ms: float


class SendOn(NamedTuple, Generic[J]):
    """Send a job, which is too late for its level, to a cheaper one."""

    job: J
    placement: Placement
    reason: str


class End(NamedTuple, Generic[J]):
    """End a job's request. COMPLETED: with the draft that it was to refine."""

    job: J
    status: Status
    reason: str
    code: str = ""
    param: str = ""  # field of the request that is at fault
    error: Exception | None = None  # of a FAILED one: it goes to the dead letters with the record
    is_poison: bool = False  # requests equal to it are refused from now on


class Retry(NamedTuple, Generic[J]):
    """Write a job once more, with this attempt, after an error: to another worker, if there is one.

    `is_death`: this worker ends with it, which counts for the rule on poison.
    """

    job: J
    attempt: int
    error: Exception
    is_death: bool = False


class HandBack(NamedTuple, Generic[J]):
    """Write a job that was not begun once more, as it is, for any other worker."""

    job: J


class Sick(NamedTuple):
    """The worker serves no more in this process, and what it has not begun is handed back.

    `counts`: among the faults of its device; not where a job is suspected that has ended a worker before.
    """

    reason: str
    counts: bool


class Drop(NamedTuple, Generic[J]):
    """Do nothing for a job: its request has ended."""

    job: J


class Commit(NamedTuple):
    """The window is done: once all that it wrote is acknowledged, commit it and call `WindowLogic.end`."""


Open = Fetch[J] | LookUp[J] | Call[J] | Keep[J] | Wait[J] | Check
Effect = Open[J] | SendOn[J] | End[J] | Retry[J] | HandBack[J] | Drop[J] | Sick | Commit


class NoDraft(NamedTuple, Generic[J]):
    """A job's draft cannot be had: it is generated from noise."""

    job: J
    kind: str  # one of few words, for a counter
    why: str


class Refused(NamedTuple, Generic[J]):
    """A job's images are not allowed: those that its request names, or those that were generated for it."""

    job: J
    reason: str
    param: str = ""


class Away(NamedTuple, Generic[J]):
    """The object store is away, so that a job lacks its inputs, its draft, or a place for its images."""

    job: J
    error: Exception
    is_draft: bool = False
    kind: str = "store"  # as in `NoDraft`, should it stay away


class Unchecked(NamedTuple, Generic[J]):
    """The images of a job could not be checked: they are not shown."""

    job: J
    error: Exception


class Fetched(NamedTuple, Generic[J]):
    """What jobs begin with is there, but for these troubles."""

    id: int
    troubles: Sequence[NoDraft[J] | Refused[J] | Away[J]] = ()


class Kept(NamedTuple, Generic[J]):
    """The images of a call are stored and sent on, but for these troubles."""

    id: int
    troubles: Sequence[Refused[J] | Unchecked[J] | Away[J]] = ()


class Called(NamedTuple):
    """The engine has generated every job of a call."""

    id: int
    run_ms: float  # without loading
    load_ms: float = 0.0  # that it waited for components
    side_by_side: int = 1  # calls that ran meanwhile, this one included


class Stopped(NamedTuple):
    """The engine has stopped a call, as `should_stop` said."""

    id: int


class Unfit(NamedTuple):
    """The engine cannot begin with the drafts, images or latents of a call."""

    id: int
    error: Exception


class CallFailed(NamedTuple):
    """The engine has failed. `param`: the field of the request that is at fault, if it is the job's."""

    id: int
    error: Exception
    fault: Fault = Fault.MODEL
    param: str = ""


class Done(NamedTuple):
    """An effect was carried out."""

    id: int


Answer = Fetched[J] | Kept[J] | Called | Stopped | Unfit | CallFailed | Done
