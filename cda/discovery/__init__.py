"""Search for biases that nobody listed, and their confirmation on unseen prompts."""
