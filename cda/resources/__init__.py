"""A recipe's data, models, LLMs and scorers, each opened once a run."""
