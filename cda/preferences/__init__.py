"""What a reward model would learn of each bias from preference data, before anything is trained."""
