"""The reference of commands and settings: `docs/reference/commands.md` and `settings.md`, made from the code by `python tests/documents.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from cda.cli import app
from cda.cli.app import EXIT_CODES
from cda.recipe.explain import all_settings

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = {
    "audit": "Audit; RewardCheck with --check-reward",
    "compare": "Comparison",
    "train": "TrainResult",
    "label": "LabelCounts",
    "synthesize": "SynthesizeCounts",
    "dose": "TrainResult; Dose with --only or --against",
    "calibrate": "Calibration",
    "merge": "Written",
    "data": "DataAudit",
    "quality": "Quality",
    "best-of": "BestOf",
    "score": "ScoreResult",
    "discover": "DiscoverResult; TopicsResult with --by-topic",
    "inspect": "InspectResult; Prompts with --prompts",
    "report": "TrainResult; Audit for a folder",
    "triples": "Written",
    "texts": "Written",
    "bias new": "NewBias",
    "study export": "Written",
    "study import": "StudyResult",
    "samples": "SampleSizes",
    "list": "Names",
    "config": "SettingInfo; SectionInfo for a section",
    "version": "Version",
}
"""Command to what its --json prints."""
NOT_DRY = {
    "list": "prints what ships with the package",
    "config": "prints what ships with the package",
    "completion": "prints a script",
    "version": "prints the version",
    "launch": "starts another command, which takes --dry-run",
}
"""Commands without --dry-run to the reason."""
_HEAD = """# Commands

Made from the code by `python tests/documents.py`; `cda COMMAND -h` says the same.

| exit code | |
| --- | --- |
{codes}

`cda launch` ends with the code of the command that it starts; `accelerate launch` and `torchrun` end with 1 for each of ours but 0.

- `--json` prints the result named below as JSON on standard output, and nothing else; messages and progress go to standard error. Fields:
  [results](../results/README.md), and `cda/results/commands.py` for those of commands that write no result file. A dry run prints a Plan.
- `--dry-run` checks everything, prints the settings that differ from the defaults (with `--full` all of them) and the plan: what is read, what
  asking an LLM costs, and what is written where. Nothing is done. A command without settings of a recipe prints its options instead. Commands
  that only print have no dry run: {not_dry}.
- `--limit N` is for a quick look: at most N prompts, pairs, triples or contrasts of each file and bias, drawn with the seed, since files are
  often sorted. What was not drawn is counted in the result.
- `--column ours=theirs` names a column of your file. A command that reads several files takes `FILE.ours=theirs` for another than its
  main one: `--column quality.chosen=better`. In a recipe these are `data.columns`, `audit.columns`, `audit.quality_columns` and so on.
- `--fail-if` ends with exit code 1 if a condition on the finished audit holds, or if its number is missing: [in CI](../how-to/audit.md#in-ci).
- Completion of commands, options, names and settings: put `eval "$(cda completion bash)"` into `~/.bashrc` (zsh: `~/.zshrc`), or write
  the output of `cda completion fish` to `~/.config/fish/completions/cda.fish`.
- `cda list biases` (or recipes, models, prompts) names what ships; `cda config KEY` explains a setting ([all](settings.md)).
"""


def files() -> dict[Path, str]:
    """Both pages, as the code makes them."""
    folder = DOCS / "reference"
    return {folder / "commands.md": "\n".join(_commands_page()), folder / "settings.md": "\n".join(_settings_page())}


def _commands_page() -> Iterator[str]:
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    not_dry = ", ".join(f"`{name}`" for name in NOT_DRY if name != "launch")
    yield _HEAD.format(codes=codes, not_dry=not_dry)
    for name, command in every_command(get_command(app)):
        yield f"## cda {name}\n\n{' '.join((command.help or '').split())}\n"
        if name in RESULTS:
            yield f"`--json` prints: {RESULTS[name]}.\n"
        yield "| argument or option | meaning |\n| --- | --- |"
        for parameter in command.params:
            names = ", ".join(parameter.opts) if parameter.param_type_name == "option" else parameter.name
            yield f"| `{names}` | {_escaped(getattr(parameter, 'help', None) or '')} |"
        yield ""


def every_command(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Words and click command of every command, those of groups included."""
    for word, inner in group.commands.items():
        if inner.hidden:  # refused with its new spelling
            continue
        if hasattr(inner, "commands"):
            yield from every_command(inner, f"{before}{word} ")
        else:
            yield f"{before}{word}", inner


def _settings_page() -> Iterator[str]:
    yield "# Recipe settings\n"
    yield "Every key of a recipe, made from the code by `python tests/documents.py`. On the command line a key is `section.key=value`; "
    yield "`cda config KEY` says the same, and which shipped recipes and presets set it.\n"
    yield "| key | type | default | meaning |\n| --- | --- | --- | --- |"
    for info in all_settings():
        kind = " or ".join(f"`{word}`" for word in info.allowed) if info.allowed else f"`{info.type}`"
        yield f"| `{info.key}` | {_escaped(kind)} | `{_escaped(info.default)}` | {_escaped(info.meaning)} |"
    yield ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
