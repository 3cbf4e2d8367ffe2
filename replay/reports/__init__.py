"""Reports of runs on a trace: report.json, the page made of it, and two of them held against each other."""
