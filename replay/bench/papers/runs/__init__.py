"""The runs of a question: cell, trace and fleet of one run; running many, and keeping their results."""
