"""A client of the pipeline: traces, drivers, reports, the demo."""
