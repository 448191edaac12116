"""The dose of a debiasing adapter: chosen on votes, measured out of fold."""
