"""One script per trained artefact; `python -m agents.models.training.all` runs them in order."""
