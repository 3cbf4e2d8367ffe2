"""The HTML page of a report: its sentences, its table and its plots, drawn from report.json alone."""
