"""The commands that look something up: names that come with the package, settings, the version, and completion of both."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from cda import __version__
from cda.cli import complete
from cda.cli.app import LOOK_UP, Call, job
from cda.errors import RecipeError, did_you_mean
from cda.files.shipped import FOLDERS, shipped
from cda.launch import say

_NO_SPACE = "    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:] ]] && compopt -o nospace\n"
SHELLS = ("bash", "zsh", "fish")


@job(LOOK_UP, end="as_json", name="list")
def list_(
    call: Call,
    kind: Annotated[
        str | None,
        Argument(help="biases, recipes, models (presets) or prompts. Default: the names of all.", autocompletion=complete.kinds),
    ] = None,
) -> None:  # fmt: skip
    """List the biases, recipes, model presets or prompts that come with the package, each with its file."""
    from cda.results.commands import Name, Names

    if kind is None:
        if call.output.as_json:
            raise RecipeError([f"--json: name a kind: {', '.join(FOLDERS)}"])
        names = {each: ", ".join(name for name, *_ in shipped(each)) for each in FOLDERS}
        say("\n".join(f"{each:{max(map(len, FOLDERS))}}  {found}" for each, found in names.items()))
        say("`cda list KIND` describes each, with its file")
        return
    if kind not in FOLDERS:
        raise RecipeError([f"{kind}: nothing of this kind.{did_you_mean(kind, FOLDERS)} Known: {', '.join(FOLDERS)}"])
    found = tuple(Name(name=name, description=sentence, file=file) for name, sentence, file in shipped(kind))
    width = max(len(each.name) for each in found)
    lines = (f"{each.name:{width}}  {each.description}\n{'':{width}}  {each.file}" for each in found)
    call.output.show(Names(kind=kind, names=found), "\n".join(lines))


@job(LOOK_UP, end="as_json")
def config(
    call: Call,
    key: Annotated[
        str | None,
        Argument(help="A setting (train.learning_rate) or a section (audit). Default: all sections.",
                 autocompletion=complete.setting_names),
    ] = None,
) -> None:  # fmt: skip
    """Explain a setting of a recipe: its type, default, allowed values and meaning, and the recipes and presets that set it."""
    from cda.recipe.explain import explained, explained_text

    found = explained(key or "")
    call.output.show(found, explained_text(found))


@job(LOOK_UP, end="")
def completion(
    _: Call,
    shell: Annotated[str, Argument(help="bash, zsh or fish.", autocompletion=lambda: list(SHELLS))],
) -> None:
    """Print a script that completes commands, options, names and settings: eval "$(cda completion bash)"."""
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise RecipeError(
            [f"{shell}: no completion for this shell.{did_you_mean(shell, SHELLS)} Known: {', '.join(SHELLS)}"]
        )
    script = get_completion_script(prog_name="cda", complete_var="_CDA_COMPLETE", shell=shell)
    if shell == "bash":  # no space behind `audit.quality=` or `judge:`, which have to go on
        script = script.replace("    return 0\n", f"{_NO_SPACE}    return 0\n")
    print(script)


@job(LOOK_UP, end="as_json")
def version(call: Call) -> None:
    """Print the version."""
    from cda.results.commands import Version

    call.output.show(Version(version=__version__), __version__)
