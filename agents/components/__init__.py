"""The components of one worker: what lies in which tier, moved between tiers, and reported."""
