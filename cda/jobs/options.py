"""Options of jobs, each declared once: its type and sentence in Python, and the command's option that stands for it. Imports
nothing heavy, so that `cda --help` and completion read it."""

# Annotations are objects here, not text: the signatures of functions and commands are made from them.
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_type_hints

Model = str | PathLike[str] | Callable[..., object] | tuple[object, object]
"""A name as `cda audit` takes it; a function (prompts, responses) -> rewards, or (prompts, first, second) -> preferences; or a
sequence classifier of Transformers with its tokenizer."""
Data = str | PathLike[str] | Iterable[Mapping[str, object]]
"""A path, hub id or `embedded`; or rows: a list of dicts, a `datasets.Dataset`, or a pandas frame."""
Biases = str | Path | Sequence[str | Path]
Place = str | Path
Confirm = bool | Literal["ask"]
"""Agreement to the cost of asking an LLM; `"ask"` asks for it on the terminal, as the commands do."""
COMMON = "Common options"
"""Group of options in a command's `--help`."""


class Flag(NamedTuple):
    """An option of commands; `name`: the parameter that Typer gives it; `more`: arguments of `typer.Option`, with the name of a
    function of `cda.cli.complete`."""

    help: str
    kind: Any = str | None
    words: tuple[str, ...] = ()
    name: str | None = None
    default: object = None
    more: Mapping[str, Any] = {}


class Arg(NamedTuple):
    """A keyword argument: its sentence in `help()`, its default, and the option of commands that goes with it."""

    says: str
    default: object = None
    flag: Flag | None = None


def folder(named: str, command: str) -> Arg:
    """The place of results, by the ends of its default's name in Python's and in the command's help."""
    return Arg(
        f"Output folder; None for `runs/{named}`.", None, Flag(f"Folder for the results. Default: runs/{command}.")
    )


def common(help: str, kind: Any, word: str, name: str | None = None, **more: object) -> Flag:
    """An option under the heading of those that many commands have."""
    return Flag(help, kind, (word,), name, False if kind is bool else None, {"rich_help_panel": COMMON, **more})


def switch(name: str, help: str) -> Flag:
    """An option that is given or not."""
    return Flag(help, bool, (name,), default=False)


FIGURES = common("Also write every figure of the report at paper size, as svg or pdf.", str | None, "--figures")
LIMIT = common(
    "For a quick look: take at most so many prompts, pairs or contrasts of each file and bias, drawn with the seed.",
    int | None,
    "--limit",
    min=1,
)
COLUMN = common(
    "A column of your file under another name, ours=theirs; several times for several.",
    list[str] | None,
    "--column",
    "column",
)
BIAS = Flag(
    "Name or bias file; several times for several. Default: all five.",
    list[str] | None,
    ("--bias",),
    "bias",
    more={"autocompletion": "biases"},
)
CONTRASTS = Flag("Contrasts of your own: prompt, base, perturbed.")
CHECKED = 'Preference pairs for accuracy; `"none"` for no such check.'
_QUICK = "For a quick look: take at most so many pairs, contrasts, triples and quality pairs of each bias, drawn with the seed."

AllBiases = Annotated[Biases | None, Arg("Names or bias files; None for all five."), BIAS]
Figures = Annotated[str | None, Arg("Also write the report's figures as files of this format: svg or pdf."), FIGURES]
Votes = Annotated[
    Data | None,
    Arg("People's votes on them: rows of id and vote."),
    Flag("People's votes on them: id and vote, any number an item."),
]
Quality = Annotated[Data | None, Arg(CHECKED), Flag("Preference pairs for accuracy; `none` for no such check.")]
_FRESH = "Measure again, even if the folder holds the same."
Fresh = Annotated[bool, Arg(_FRESH, False), switch("--fresh", _FRESH)]
Against = Annotated[
    Model | None, Arg("A second model to compare with."), Flag("Compare with a second model.", words=("--against",))
]
AdapterDose = Annotated[
    float | None,
    Arg("Dose of the adapter; None: the dose chosen in a run, 1 for an adapter folder."),
    Flag(
        "How much of the adapter, 1 as trained; left out: the dose chosen in a run, 1 of an adapter.",
        float | None,
        ("--dose",),
    ),
]
Split = Annotated[
    str,
    Arg("Split of a folder or hub id with several.", "train"),
    Flag("Of a folder or hub id with several.", str, ("--split",), default="train"),
]
Columns = Annotated[
    Mapping[str, str] | None, Arg('Our column names to the file\'s, such as `{"prompt": "question"}`.'), COLUMN
]


class Settings(TypedDict, total=False):
    """Settings of a recipe, by section; those that no job has an option of the same name for."""

    name: str
    seed: int
    lora: object
    data: object
    label: object
    rewrite: object
    synthesize: object
    objectives: object
    train: object
    llm: object
    audit: object
    score: object
    discover: object
    run: object


class ModelSettings(Settings, total=False):
    model: object


class DoseSettings(Settings, total=False):
    dose: object


class Called(Settings, total=False):
    """Options of every function."""

    progress: Annotated[bool, Arg("Show progress bars.", True)]
    overrides: Annotated[
        Sequence[str] | None, Arg("Settings as words `section.key=value`; messages then name the command line.")
    ]


class Paid(Called, total=False):
    """Options of every function that may ask an LLM."""

    budget_usd: Annotated[
        float | None,
        Arg("Dollars that may be spent on LLMs, for all models together; nothing is spent if the estimate exceeds it."),
    ]
    confirm: Annotated[
        Confirm, Arg('Agree to the cost of asking an LLM, of all models at once; `"ask"`: ask on the terminal.', False)
    ]


class AuditArguments(Paid, ModelSettings, DoseSettings, total=False):
    biases: AllBiases
    contrasts: Annotated[Data | None, Arg("Rows of prompt, base and perturbed; None for the embedded ones."), CONTRASTS]
    votes: Votes
    verdicts: Annotated[
        Data | None,
        Arg("LLM judges' verdicts on them, which narrow the intervals if votes are few."),
        Flag("LLM judges' verdicts on them, to stretch few votes (PPI++)."),
    ]
    quality: Quality
    triples: Annotated[
        Data | None,
        Arg('Your own RATE triples; `"none"` for no RATE.'),
        Flag("RATE triples of your own; `none` for no RATE."),
    ]
    figures: Figures
    out: Annotated[
        Place | None,
        Arg(
            "Folder of the run; None for `runs/audit-<model>`. Existing contents are reused, except for objects in memory. Of a "
            "comparison: the folder that holds a run for each model, and `comparison`."
        ),
        Flag("Folder of the run; of a comparison that of its models' runs and `comparison`. Default: below runs/."),
    ]
    limit: Annotated[int | None, Arg(_QUICK), LIMIT]
    fresh: Fresh


class TrainArguments(Paid, DoseSettings, total=False):
    model: Annotated[
        str | Path | dict[str, object] | None,
        Arg(
            'Hub id or folder of the reward model; or the recipe\'s section, such as `{"preset": "skywork-llama-8b"}`.'
        ),
    ]
    pairs: Annotated[Data | None, Arg("Preference pairs to debias on: prompt, chosen, rejected.")]
    biases: Annotated[Biases | None, Arg("Names or bias files, in place of the recipe's.")]
    contrasts: Annotated[Data | None, Arg("Contrasts to audit on: prompt, base, perturbed.")]
    votes: Votes
    quality: Quality
    until: Annotated[str, Arg("Last stage: label, synthesize, train, dose, audit or report.", "report")]
    only: Annotated[bool, Arg("Run this stage alone; earlier ones must have finished.", False)]
    figures: Figures
    dry_run: Annotated[bool, Arg("Check everything, log the settings and the plan, do nothing.", False)]
    out: Annotated[Place | None, Arg("Folder of the run; None for `runs/<recipe>`.")]
    limit: Annotated[int | None, Arg(_QUICK), LIMIT]


class DataArguments(Paid, ModelSettings, DoseSettings, total=False):
    biases: Annotated[
        Biases | None, Arg("Names or bias files; None for all five, or those that `labels` has labels of."), BIAS
    ]
    labels: Annotated[
        Sequence[Place] | Place | None,
        Arg(
            "Files that say which sides have each bias; None: labelled by each bias's measure, or by an LLM if `llm` names one."
        ),
        Flag(
            "Take labels from this file (PAIRS itself, or another); several times for several. Default: measured, or by llm.model.",
            list[str] | None,
        ),
    ]
    by: Annotated[
        str | Sequence[str] | None,
        Arg("Columns by whose values the pairs are measured too, such as `source`."),
        Flag("Measure by the values of this column, too, such as source; several times for several.", list[str] | None),
    ]
    columns: Columns
    split: Split
    out: Annotated[Place | None, folder("data-<pairs>", "data-of-<pairs>")]
    figures: Figures
    limit: Annotated[int | None, Arg("Take at most so many pairs, drawn with the seed."), LIMIT]


class QualityArguments(Paid, ModelSettings, total=False):
    over: Annotated[
        Data | None,
        Arg("Other outputs to the same prompts: the i-th output to a prompt is compared with the i-th one there."),
        Flag("Win rate: the file holds outputs (prompt, response), and this one others to the same prompts."),
    ]
    adapter: Annotated[
        Place | None,
        Arg("Measure again with it: its folder, or that of a finished run."),
        Flag("Measure again with an adapter: its folder, or that of a finished run."),
    ]
    against: Against
    dose: AdapterDose
    out: Annotated[Place | None, folder("quality-<model>-<inputs>", "quality-<model>-<what is asked>")]
    figures: Figures
    limit: Annotated[int | None, Arg("Take at most so many items of each file, drawn with the seed."), LIMIT]


class BestOfArguments(Called, ModelSettings, total=False):
    adapter: Annotated[
        Place | None,
        Arg("Pick again with it: its folder, or that of a finished run."),
        Flag("Pick again with an adapter: its folder, or a finished run's."),
    ]
    against: Against
    dose: AdapterDose
    biases: AllBiases
    sizes: Annotated[
        Sequence[int] | None,
        Arg("Values of n; None for 1, 2, 4, 8, … as far as half of the prompts reach."),
        Flag("A value of n; several times for several. Default: 1, 2, 4, 8, …", list[int] | None, ("--n",), "size"),
    ]
    betas: Annotated[
        Sequence[float] | None,
        Arg(
            "KL penalties in reward units at which to look at the tilted policy, besides those in standard deviations of rewards."
        ),
        Flag(
            "A KL penalty, in reward units, at which to look at the tilted policy besides the usual ones; several times for several.",
            list[float] | None,
            name="beta",
        ),
    ]
    columns: Columns
    split: Split
    out: Annotated[Place | None, folder("best-of-<model>-<inputs>", "best-of-<model>-<what is asked>")]
    figures: Figures
    limit: Annotated[int | None, Arg("Take at most so many prompts, drawn with the seed."), LIMIT]


class VotedArguments(Paid, ModelSettings, DoseSettings, total=False):
    """What a correction is chosen on: contrasts that people voted on, and quality pairs."""

    biases: AllBiases
    contrasts: Annotated[Data | None, Arg("Rows of prompt, base and perturbed; None for the embedded ones."), CONTRASTS]
    quality: Annotated[
        Data | None,
        Arg('Preference pairs whose accuracy must not fall; `"none"` for no such check.'),
        Flag("Preference pairs whose accuracy must not fall; `none` for no such check."),
    ]
    figures: Figures
    limit: Annotated[
        int | None, Arg("Take at most so many contrasts of each bias, and quality pairs, drawn with the seed."), LIMIT
    ]


class CalibrateArguments(VotedArguments, total=False):
    out: Annotated[Place | None, folder("calibrate-<model>-<inputs>", "calibrate-<model>-<files>")]


class DoseArguments(VotedArguments, total=False):
    out: Annotated[Place | None, folder("dose-<before>-<inputs>", "<recipe>, or dose-<model>-<files> with --against")]


class DiscoverArguments(Paid, ModelSettings, total=False):
    judge: Annotated[
        Model | None,
        Arg(
            "Scorer to compare with: `judge:NAME`, any other model, or an object; None: the LLM of `llm.model`, or the embedded "
            "judge if no LLM is set."
        ),
        Flag("What the model is held against: judge:NAME, or any other model. Default: judge:<llm.model>."),
    ]
    adapter: Annotated[
        Place | None,
        Arg("Search the model with this adapter and compare it with the model without."),
        Flag("Search the model with an adapter; held against the model without it."),
    ]
    dose: AdapterDose
    attributes: Annotated[
        Sequence[Place],
        Arg("Measure these (in words or as bias files) instead of searching.", ()),
        Flag(
            "No search: measure this, in words or a bias file; several times for several.",
            list[str] | None,
            name="attribute",
        ),
    ]
    formats: Annotated[
        bool,
        Arg("Measure the shipped format attributes instead of searching.", False),
        switch("--formats", "No search: measure bold, lists, headers, emoji, exclamations, links, yes-words."),
    ]
    responses: Annotated[
        Data | None,
        Arg("Rows of prompts with sampled responses; None: sampled by the LLM."),
        Flag("File of prompts with sampled responses. Default: sampled by the LLM."),
    ]
    prompts: Annotated[
        Data | None,
        Arg("Rows of prompts to answer; None: written on twenty topics."),
        Flag("File of prompts to answer. Default: written on twenty topics."),
    ]
    by_topic: Annotated[
        bool,
        Arg(
            "Search, test and correct in each topic of the prompts by itself, then measure across topics. Rows name their topic in "
            "`topic`; embedded and written prompts have one.",
            False,
        ),
        switch("--by-topic", "Search and test in each topic by itself, then measure across topics."),
    ]
    topics: Annotated[
        Sequence[str],
        Arg("With `by_topic`, these topics alone.", ()),
        Flag("With --by-topic: this topic alone; several times for several.", list[str] | None, name="topic"),
    ]
    review: Annotated[
        bool,
        Arg("Stop before the last test, for a person to drop candidates.", False),
        switch("--review", "Stop before the last test, for a person to drop candidates."),
    ]
    out: Annotated[Place | None, folder("discover-<model>-<inputs>", "discover-<model>-<what is asked>")]
    figures: Figures
    fresh: Fresh
    dry_run: Annotated[bool, Arg("Check everything, and give the plan and its cost in `summary`; do nothing.", False)]
    limit: Annotated[int | None, Arg("Take at most so many prompts, drawn with the seed."), LIMIT]


class Option(NamedTuple):
    """A declared option: its type in Python, and what stands with it."""

    kind: Any
    arg: Arg
    flag: Flag | None


def options_of(declared: type) -> dict[str, Option]:
    """The options of a job by name, those that several jobs share first; settings of recipes are none."""
    hints = get_type_hints(declared, include_extras=True)
    notes = {name: hint.__metadata__ for name, hint in hints.items() if hasattr(hint, "__metadata__")}
    return {
        name: Option(hints[name].__origin__, arg, flag[0] if flag else arg.flag) for name, (arg, *flag) in notes.items()
    }


def defaults_of(declared: type) -> dict[str, Any]:
    """What a function gets for options that are not given."""
    return {name: option.arg.default for name, option in options_of(declared).items()}
