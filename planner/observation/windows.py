"""How far back the planner looks, live and in the simulator."""

DEMAND_MS = 30_000  # over which arrivals are counted as the demand of now
COUNTS_S = 60  # of arrivals a second, of which a forecast is made
PROMPTS = 1000  # in the histograms of hardness, classes and tiers. Source: ARGUS 4.2, "the last 1,000 prompts"
SCORES = 4000  # confidences a level, the newest: a curve of ten bands is then known to within .1 a band
SERVED_MS = 60_000  # of results
