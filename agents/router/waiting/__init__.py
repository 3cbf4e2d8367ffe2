"""Jobs that wait for an idle worker, where the plan pulls: read, forwarded, counted."""
