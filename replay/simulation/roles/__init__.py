"""The roles of a simulated deployment: their queues and clocks. The rules are planner's."""
