"""The backoff of a role that asks an object store again which does not answer."""

RETRY_S, MAX_RETRY_S = 0.1, 5.0  # after the first failure, doubled by each failure in a row; at most
DRAFT_S = 5.0  # outage that is waited out for a draft: an image from noise costs less than a longer one


def backoff_s(failures: int) -> float:
    """Return the seconds to wait after 1 or more failures in a row."""
    return float(min(MAX_RETRY_S, RETRY_S * 2 ** min(failures - 1, 30)))
