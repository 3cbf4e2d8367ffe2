"""A deployment in discrete events: time, queues and workers are simulated, every decision is the live roles' own."""
