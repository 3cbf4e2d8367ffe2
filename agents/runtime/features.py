"""Opens the parts of active features (`planner/serving/features.py`) for the roles of a process."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from planner.serving.features import FEATURES, active
from schemas.record import Outgoing
from streams.settings import InvalidSettings, Settings, stated_sections
from streams.store.port import ImageStore

if TYPE_CHECKING:
    from agents.worker.stages import Stages
    from planner.serving.routing.routing import TenantRights


def check_settings(settings: Settings) -> None:
    """Refuse settings of features that are not here, so that no request is served without what they ask for.

    Raises Unknown, InvalidSettings.
    """
    for name in settings.features:
        FEATURES.check(name)
    for section, feature in stated_sections(settings).items():
        if feature not in FEATURES:
            raise InvalidSettings(f"setting {section}: unknown, as this installation lacks the feature {feature!r}")


def rights_of(settings: Settings) -> "TenantRights | None":
    """Return the rights of tenants in a router's process. None if no feature has any."""
    makes = [feature.rights for feature in active(settings.features) if feature.rights is not None]
    if len(makes) > 1:
        raise InvalidSettings("setting features: two features have rights of tenants; name one of them")
    return makes[0](settings) if makes else None


def stages_of(settings: Settings, store: ImageStore, note: Callable[[Outgoing], object]) -> "Stages":
    """Open the stages of a worker's process; the caller closes them. Raises PochadeError: one cannot be opened."""
    from agents.worker.stages import Stages

    return Stages.opened(
        (feature.worker for feature in active(settings.features) if feature.worker is not None), settings, store, note
    )
