"""Search for unlisted biases, and their confirmation on unseen prompts."""
