"""Estimates with intervals: pure functions on arrays.

Arguments that mean the same everywhere; a docstring names them only if they mean something else:

    margins: score(perturbed) − score(base), shape (n,), in reward units; or a judge's preference in [−1, 1]. Positive: the side
        with the bias is preferred.
    prompt_ids: Prompt of each row, length n: the cluster that is drawn, or summed, as a whole.
    unit: Unit of the values, for the estimate.

All raise DataError for no rows, lengths that differ, and values that are NaN or infinite.
"""
