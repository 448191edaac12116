"""Several audits together: panels of models, and leaderboards."""
