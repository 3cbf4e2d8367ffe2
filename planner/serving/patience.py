"""How those who wait for a store that is away ask it again: an outage is waited out in place (design, 3)."""

AGAIN_S, MOST_AGAIN_S = 0.1, 5.0  # after the first failure; doubled by each in a row, up to
DRAFT_S = 5.0  # of an outage, for a draft: painting on a blank costs less than a longer one


def again_s(failures: int) -> float:
    """Seconds to wait after so many failures in a row, 1 or more; as tenacity's `wait_exponential` has it."""
    return float(min(MOST_AGAIN_S, AGAIN_S * 2 ** min(failures - 1, 30)))
