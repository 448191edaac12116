"""Prompt files: what an LLM is told when it labels, rewrites or judges; one YAML file each, ours or the user's own."""

from cda.prompts.load import OURS, JudgePrompt, LabelPrompt, Prompts, RewritePrompt, load_prompt, ours, shipped_prompts

__all__ = ["OURS", "JudgePrompt", "LabelPrompt", "Prompts", "RewritePrompt", "load_prompt", "ours", "shipped_prompts"]
