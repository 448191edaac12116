"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Recipe = Annotated[
    str, typer.Argument(help="Path of a recipe or of a bias file, or the name of a shipped recipe (jargon, length, …).")
]
Overrides = Annotated[list[str] | None, typer.Argument(help="section.key=value, as many as you like.")]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Check everything, print the resolved recipe and the plan, do nothing."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Agree beforehand to what asking an LLM will cost.")]
Only = Annotated[bool, typer.Option("--only", help="Run this stage alone; earlier ones must have finished.")]
Figures = Annotated[
    str | None, typer.Option("--figures", help="Also write every figure of the report at paper size, as svg or pdf.")
]
Column = Annotated[
    list[str] | None,
    typer.Option("--column", help="A column under another name, ours=theirs; may be given several times."),
]
SplitName = Annotated[str, typer.Option("--split", help="Of a folder or hub id with several.")]
TARGET = (
    "A reward model (hub id, folder, or `embedded`), `judge:NAME` for an LLM judge (`judge:NAME,NAME`: a panel), `served:URL` for a served model, "
    "`dpo:POLICY,REFERENCE` or `steered:MODEL` for causal models, or `module:function` for your own."
)
