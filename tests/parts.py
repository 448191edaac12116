"""Which tests are the quick part, `pytest -m quick`, and which files come first. Declared here, for all tests at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
SLOW_FOLDERS = (
    "browser", "evals", "golden", "pipeline", "training", "models", "discovery", "comparing", "dosing", "calibration", "properties",
)  # fmt: skip
"""Chromium, evals and commands as users run them, whole jobs, trainings, models of every family, searches, several audits, fuzzing."""
SLOW_FILES = (
    # mypy and the other linters, the site, the wheel, every documented command.
    "test_lint.py", "test_site.py", "test_documented_names.py", "test_packaging.py", "test_installed.py", "test_commands.py",
    # Processes of their own.
    "test_launch_processes.py", "test_terminal_streams.py", "test_transformers_serve.py",
    "test_llm_cache.py", "test_llm_batch.py", "test_purse.py", "test_errors_inside.py", "test_progress.py",
    "test_records.py", "test_run.py", "test_user_errors.py", "test_audit.py", "test_rewards.py", "test_command_habits.py",
    "test_hub_commits.py", "test_scorer_kinds.py", "test_score_processes.py", "test_train_keys.py", "test_plot.py", "test_own.py",
    # Trials of a trainer's settings, and trainings.
    "test_objectives_stage.py", "test_pair_weights.py", "test_prompt_stages.py", "test_recipe_sources.py", "test_plans_without.py",
    # Four seconds of computing or more.
    "test_engine.py", "test_dialects.py", "test_classifier_scores.py", "test_pair_models.py",
    "test_endpoints.py", "test_scorers.py", "test_export_texts.py", "test_rules.py",
    "test_faithful.py", "test_discover.py",
    "test_benchmark_commands.py", "test_report_forms.py", "test_glance.py", "test_inspect.py", "test_documents.py", "test_dry_runs.py",
    "test_documented_numbers.py",
)  # fmt: skip
SLOW_FIXTURES = ("browser", "launch", "trained_fp32")
LONG = (
    "test_notebook.py", "test_pipeline.py", "test_pipeline_processes.py", "test_discover_llm.py", "test_golden.py",
    "test_dose_stage.py", "test_lint.py",
)  # fmt: skip
"""Files that take a minute or more, the longest first: one that is begun last keeps the other processes waiting."""


def is_quick(path: Path, fixtures: Collection[str]) -> bool:
    """True if a test of a file that needs these fixtures belongs to the quick part."""
    slow_file = path.name in SLOW_FILES or path.name in LONG
    return not (slow_file or path.relative_to(TESTS).parts[0] in SLOW_FOLDERS or set(fixtures) & set(SLOW_FIXTURES))


def place(path: Path) -> int:
    """Place of a file's tests among all."""
    return LONG.index(path.name) if path.name in LONG else len(LONG)


TRAINER = "trl.trainer.reward_trainer"
TRIAL = "trial_process.py"
"""Every model's chat template is tried in a process, for 0.15 seconds."""


class Watch:
    """Fails a quick test that starts Python or a program of its environment, or loads the trainer, which takes eight seconds."""

    def __init__(self) -> None:
        self.quick = False
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.quick:
            return
        words = [os.fsdecode(word) for word in arguments[1]] if event == "subprocess.Popen" else []
        in_environment = bool(words) and Path(words[0]).parent == Path(sys.executable).parent
        if (in_environment and not words[-1].endswith(TRIAL)) or (event == "import" and arguments[0] == TRAINER):
            raise AssertionError(f"a quick test needs {words or TRAINER}: name its file in tests/parts.py")
