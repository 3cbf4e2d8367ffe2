"""The simulated planner: when it plans, what it sees, and the plan in force."""
