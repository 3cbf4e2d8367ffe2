"""Whether completed results name the components that their requests asked for, as the catalog has them.

    its names       base, adapters and controls with their weights are those that the catalog gives the request on the
                    level of the result: none was left out, none is another one
    its path        the stage whose image is the answer says the same
    its inputs      images that the request follows or begins with are its own tenant's

What a catalog no longer lists cannot be held against anything and is counted, and so is each component without a digest
there: workers compare the weights that they load with the catalog's digest, and have none to compare these with. That
stored images, inputs among them, are the bytes whose hash their name carries is the store's own check at every read.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from planner.catalog.entries import Variant, variant_of
from planner.catalog.model import Catalog
from planner.catalog.options import resolve_options
from planner.serving.admission.inputs import check_inputs
from planner.serving.routing.composing import Composed, is_composed
from schemas.errors import InvalidRequest
from schemas.messages import GenerateOptions, GenerateRequest, Result, Status
from streams.operator.explain import steps_of


class ComponentFindings(NamedTuple):
    """The findings about completed requests that named components, a base or an input image."""

    checked: int
    wrong: Mapping[str, str]  # request -> what its result says instead of what was asked
    unlisted: tuple[str, ...]  # requests whose result names a level or component that the catalog does not list
    undigested: Mapping[str, int]  # component without a digest in the catalog -> requests generated with it


NOT_COMPARED: Final = ComponentFindings(0, {}, (), {})


class NamedComponents:
    """Takes in requests and first results, in any order, and holds the ones against the others."""

    def __init__(self, catalog: Catalog) -> None:
        """`catalog`: that the roles serve with."""
        self._catalog = catalog
        self._asked: dict[str, GenerateRequest] = {}  # that named something

    def ask(self, request: GenerateRequest) -> None:
        """Add a request as it was classified."""
        if is_composed(request.options, self._catalog):
            self._asked[request.request_id] = request

    def findings(self, results: Mapping[str, Result]) -> ComponentFindings:
        """Compare with the first result of each request. Raises InvalidRecord: a path is none."""
        wrong, unlisted, undigested = dict[str, str](), list[str](), Counter[str]()
        checked = 0
        for name, request in self._asked.items():
            result = results.get(name)
            if result is None or result.status is not Status.COMPLETED:
                continue
            checked += 1
            variant = self._catalog.served.get(variant_of(result.level or ""))
            if variant is None or _unlisted(result, variant):
                unlisted.append(name)
            elif why := self._fault(request, result, variant):
                wrong[name] = why
            else:
                undigested.update(_without_digest(result, variant))
        return ComponentFindings(checked, wrong, tuple(unlisted), undigested)

    def _fault(self, request: GenerateRequest, result: Result, variant: Variant) -> str:
        able = Composed(request.options, self._catalog)
        if not able.variants:
            return f"{variant.name} completed what nothing honours: {able.fault and able.fault.reason}"
        if variant.name not in able.variants:
            variant = self._catalog.served[able.variants[0]]
        return contradiction(request.options, result, variant) or _path_says(result) or _foreign_input(request)


def contradiction(options: GenerateOptions, result: Result, variant: Variant) -> str:
    """Return how a completed result differs from the components asked for; "" if it does not."""
    wanted = resolve_options(options, variant).components.ids
    if (variant_of(result.level or ""), result.components) == (variant.name, wanted):
        return ""
    return f"asked for {_listed(wanted)} and says {result.level} with {_listed(result.components)}"


def _path_says(result: Result) -> str:
    for stage in steps_of(result):
        is_answer = stage.image is not None and stage.image.uri == result.image_uri
        if is_answer and stage.components != result.components:
            return f"says {_listed(result.components)}, and its path {_listed(stage.components)}"
    return ""


def _foreign_input(request: GenerateRequest) -> str:
    try:
        check_inputs(request)
    except InvalidRequest as error:
        return str(error)
    return ""


def _names(result: Result) -> list[str]:
    return [said.partition("@")[0] for said in result.components]


def _unlisted(result: Result, variant: Variant) -> bool:
    known = {component.id for component in variant.components}
    return any(name not in known for name in _names(result))


def _without_digest(result: Result, variant: Variant) -> list[str]:
    digests = {component.id: component.sha256 for component in variant.components}
    return [name for name in _names(result) if not digests.get(name)]


def _listed(ids: tuple[str, ...]) -> str:
    return ", ".join(ids) or "nothing"
