"""Training: TRL's RewardTrainer on a LoRA adapter over an 8-bit base."""
