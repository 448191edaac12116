"""Rewards for any number of rows, written shard by shard."""
