"""Training, evaluation and profiling of the shipped models. No role imports it; only commands do."""
