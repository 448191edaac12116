"""The order of stages, the plan before a run, and the report at its end."""
