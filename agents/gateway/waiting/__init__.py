"""What waiting clients are told: their place in the queue, and when they may expect an end."""
