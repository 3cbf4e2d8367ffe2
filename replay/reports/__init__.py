"""Reports of runs on a trace: report.json, the page made of it, and the comparison of two reports."""
