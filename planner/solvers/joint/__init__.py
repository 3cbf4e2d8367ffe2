"""The joint optimisation: routes, cascades, workers and batches of all levels in one program (`joint`)."""
