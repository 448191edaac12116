"""Scripts that each measure a claim: run one with `python -m evals.FOLDER.NAME`."""
