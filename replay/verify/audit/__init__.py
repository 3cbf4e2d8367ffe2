"""The promises of design section 7, counted from what lies on the topics: `pochade audit`, and the end of every run."""
