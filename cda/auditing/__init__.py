"""Audits: skew, people, RATE and quality of one model, or before and after a training."""
