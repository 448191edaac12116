"""Prompt files: an LLM's instructions for labels, rewrites or verdicts; one YAML file each, ours or the user's own."""

from cda.prompts.load import OURS, JudgePrompt, LabelPrompt, Prompts, RewritePrompt, load_prompt, ours, shipped_prompts

__all__ = ["OURS", "JudgePrompt", "LabelPrompt", "Prompts", "RewritePrompt", "load_prompt", "ours", "shipped_prompts"]
