"""The control topic: plans and operators' orders."""
