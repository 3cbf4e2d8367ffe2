"""Plans with one pair of levels: which thresholds, workers and batches are best, exactly."""
