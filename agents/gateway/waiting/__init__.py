"""Places in the queue and expected times for waiting clients."""
