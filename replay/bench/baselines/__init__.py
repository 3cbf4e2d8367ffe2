"""The baselines that the benches compare with, each measured in the run that it is compared with."""
