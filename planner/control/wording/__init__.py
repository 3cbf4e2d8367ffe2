"""The words of a plan: one sentence, the evidence behind its figures, numbers for people."""
