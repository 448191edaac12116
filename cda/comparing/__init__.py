"""Several audits next to each other: models, finished runs and shared rows."""
