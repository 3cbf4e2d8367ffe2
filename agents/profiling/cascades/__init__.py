"""Every setting of a pair of levels, swept over the profile: `pochade profile cascades`."""
