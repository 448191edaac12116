"""Labels and rewrites: does a response exhibit a bias, and the response changed in that bias and nothing else."""
