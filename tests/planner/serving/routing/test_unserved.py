"""What waits for a variant that no worker serves."""

from planner.serving.routing.expecting import Expecting
from planner.serving.routing.unserved import unserved
from schemas.messages import GenerateOptions
from tests.builders import NOW_MS, a_catalog, a_request

HEAVY, EITHER = ("heavy",), ("light", "heavy")


def test_what_waits_in_vain_is_said_with_its_number_and_the_age_of_the_oldest() -> None:
    waiting = [(HEAVY, NOW_MS - 41_000.0 + 1000 * nth) for nth in range(12)] + [((), 0.0), (EITHER, NOW_MS - 90_000.0)]
    (each,) = unserved(waiting, {"light"})
    assert each.in_words(NOW_MS) == "12 wait for heavy, which no worker serves; oldest 41 s"
    assert unserved(waiting, {"heavy"}) == ()
    alone, both = unserved([(HEAVY, NOW_MS), (EITHER, NOW_MS - 2000)], {"middle"})
    assert alone.in_words(NOW_MS) == "1 waits for heavy, which no worker serves; oldest 0 s"
    assert both.in_words(NOW_MS) == "1 waits for light or heavy, which no worker serves; oldest 2 s"


def test_a_client_is_told_what_its_request_waits_for_until_a_worker_has_it() -> None:
    expecting = Expecting(a_catalog())
    named = GenerateOptions(model="heavy")
    for nth in range(3):
        request = a_request(request_id=f"r-{nth}", created_ms=NOW_MS - 5000, options=named)
        expecting.on_request(request)
    expecting.on_request(a_request(request_id="plain"))
    assert expecting.waits_in_vain("r-1", {"light"}, NOW_MS) == "3 wait for heavy, which no worker serves; oldest 5 s"
    assert expecting.waits_in_vain("plain", {"light"}, NOW_MS) == ""
    assert expecting.waits_in_vain("r-1", {"heavy"}, NOW_MS) == ""
    expecting.on_started("r-1", "heavy", "w-1", NOW_MS)
    assert expecting.waits_in_vain("r-1", {"light"}, NOW_MS) == ""
