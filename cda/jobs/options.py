"""Options of jobs, each declared once: its type, default and sentence, of which arguments of functions and options of commands are
made. Imports nothing heavy, so that `cda --help` and completion read it."""

# Annotations are objects here, not text: the signatures of functions and commands are made from them.
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, get_args, get_origin, get_type_hints

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


class Arg(NamedTuple):
    """An option of a function and its command."""

    says: str
    """Its sentence in `help()` and in `--help`."""
    default: object = None
    flag: str | None = None
    """Name of the command's option, if it is not the argument's; empty: commands have none."""
    more: Mapping[str, Any] = {}
    """Arguments of `typer.Option`, with the name of a function of `cda.cli.complete`."""


def folder(named: str) -> Arg:
    """The place of results, by the end of its default's name."""
    return Arg(f"Folder for the results. Default: runs/{named}.")


_COMMON = {"rich_help_panel": COMMON}
_BIAS = {"flag": "bias", "more": {"autocompletion": "biases"}}
AllBiases = Annotated[Biases | None, Arg("Names or bias files. Default: all five.", **_BIAS)]
Contrasts = Annotated[Data | None, Arg("Contrasts of your own: prompt, base, perturbed. Default: the embedded ones.")]
FIGURES = Arg("Also write every figure of the report at paper size, as svg or pdf.", more=_COMMON)
LIMIT = Arg(
    "For a quick look: take at most so many prompts, pairs or contrasts of each file and bias, drawn with the seed. A verdict on "
    "one model needs 30 prompts, and 30 whose sides are alike otherwise.",
    more={"min": 1, **_COMMON},
)
COLUMN = Arg("Columns of your file under another name, ours=theirs.", flag="column", more=_COMMON)
Figures = Annotated[str | None, FIGURES]
Limit = Annotated[int | None, LIMIT]
Columns = Annotated[Mapping[str, str] | None, COLUMN]
Votes = Annotated[Data | None, Arg("People's votes on them: id and vote, any number an item.")]
Quality = Annotated[Data | None, Arg("Preference pairs for accuracy; `none` for no such check.")]
Fresh = Annotated[bool, Arg("Measure again, even if the folder holds the same.", False)]
Against = Annotated[Model | None, Arg("A second model to compare with.")]
Adapter = Annotated[Place | None, Arg("Measure again with an adapter: its folder, or that of a finished run.")]
AdapterDose = Annotated[
    float | None, Arg("How much of the adapter, 1 as trained. Default: the dose chosen in a run, 1 of an adapter.")
]
Split = Annotated[str, Arg("Split of a folder or hub id with several.", "train")]


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

    progress: Annotated[bool, Arg("Show progress bars.", True, "")]
    overrides: Annotated[
        Sequence[str] | None,
        Arg("Settings as words `section.key=value`; messages then name the command line.", flag=""),
    ]


class Paid(Called, total=False):
    """Options of every function that may ask an LLM."""

    budget_usd: Annotated[
        float | None,
        Arg(
            "Dollars that may be spent on LLMs, for all models together; nothing is spent if the estimate exceeds it.",
            flag="",
        ),
    ]
    confirm: Annotated[
        Confirm,
        Arg('Agree to the cost of asking an LLM, of all models at once; `"ask"`: ask on the terminal.', False, ""),
    ]


class AuditArguments(Paid, ModelSettings, DoseSettings, total=False):
    biases: AllBiases
    contrasts: Contrasts
    votes: Votes
    verdicts: Annotated[Data | None, Arg("LLM judges' verdicts on them, to stretch few votes (PPI++).")]
    quality: Quality
    triples: Annotated[Data | None, Arg("RATE triples of your own; `none` for no RATE.")]
    figures: Figures
    out: Annotated[
        Place | None,
        Arg(
            "Folder of the run, whose results are reused unless the model is in memory; of a comparison that of its models' runs and "
            "`comparison`. Default: below runs/."
        ),
    ]
    limit: Limit
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
    contrasts: Contrasts
    votes: Votes
    quality: Quality
    until: Annotated[str, Arg("Last stage: label, synthesize, train, dose, audit or report.", "report")]
    only: Annotated[bool, Arg("Run this stage alone; earlier ones must have finished.", False)]
    figures: Figures
    dry_run: Annotated[bool, Arg("Check everything, log the settings and the plan, do nothing.", False)]
    out: Annotated[Place | None, Arg("Folder of the run. Default: runs/<recipe>.")]
    limit: Limit


class DataArguments(Paid, ModelSettings, DoseSettings, total=False):
    biases: Annotated[
        Biases | None, Arg("Names or bias files. Default: all five, or those that `labels` has labels of.", **_BIAS)
    ]
    labels: Annotated[
        Sequence[Place] | Place | None,
        Arg(
            "Files that say which sides have each bias, the pairs themselves or others. Default: measured, or by llm.model."
        ),
    ]
    by: Annotated[
        str | Sequence[str] | None, Arg("Columns by whose values the pairs are measured too, such as source.")
    ]
    columns: Columns
    split: Split
    out: Annotated[Place | None, folder("data-of-<pairs>")]
    figures: Figures
    limit: Limit


class QualityArguments(Paid, ModelSettings, total=False):
    over: Annotated[
        Data | None,
        Arg(
            "Win rate: the data are outputs (prompt, response), and these are others to the same prompts; the i-th output to a prompt "
            "is compared with the i-th one here."
        ),
    ]
    adapter: Adapter
    against: Against
    dose: AdapterDose
    out: Annotated[Place | None, folder("quality-<model>-<inputs>")]
    figures: Figures
    limit: Limit


class BestOfArguments(Called, ModelSettings, total=False):
    adapter: Adapter
    against: Against
    dose: AdapterDose
    biases: AllBiases
    sizes: Annotated[
        Sequence[int] | None,
        Arg("Values of n. Default: 1, 2, 4, 8, … as far as half of the prompts reach.", flag="n"),
    ]
    betas: Annotated[
        Sequence[float] | None,
        Arg(
            "KL penalties, in reward units, at which to look at the tilted policy besides the usual ones.", flag="beta"
        ),
    ]
    columns: Columns
    split: Split
    out: Annotated[Place | None, folder("best-of-<model>-<inputs>")]
    figures: Figures
    limit: Limit


class VotedArguments(Paid, ModelSettings, DoseSettings, total=False):
    """What a correction is chosen on: contrasts that people voted on, and quality pairs."""

    biases: AllBiases
    contrasts: Contrasts
    quality: Annotated[Data | None, Arg("Preference pairs whose accuracy must not fall; `none` for no such check.")]
    figures: Figures
    limit: Limit


class CalibrateArguments(VotedArguments, total=False):
    out: Annotated[Place | None, folder("calibrate-<model>-<inputs>")]


class DoseArguments(VotedArguments, total=False):
    out: Annotated[Place | None, folder("<recipe>, or dose-<model>-<inputs> with a second model")]


class DiscoverArguments(Paid, ModelSettings, total=False):
    judge: Annotated[
        Model | None,
        Arg(
            "What the model is held against: judge:NAME, or any other model. Default: judge:<llm.model>, or the embedded judge."
        ),
    ]
    adapter: Annotated[Place | None, Arg("Search the model with an adapter; held against the model without it.")]
    dose: AdapterDose
    attributes: Annotated[Sequence[Place], Arg("No search: measure these, in words or as bias files.", (), "attribute")]
    formats: Annotated[
        bool, Arg("No search: measure bold, lists, headers, emoji, exclamations, links, yes-words.", False)
    ]
    responses: Annotated[Data | None, Arg("Prompts with sampled responses. Default: sampled by the LLM.")]
    prompts: Annotated[Data | None, Arg("Prompts to answer. Default: written on twenty topics.")]
    by_topic: Annotated[
        bool,
        Arg(
            "Search and test in each topic of the prompts (their column topic) by itself, then measure across topics.",
            False,
        ),
    ]
    topics: Annotated[Sequence[str], Arg("With a search by topic: these topics alone.", (), "topic")]
    review: Annotated[bool, Arg("Stop before the last test, for a person to drop candidates.", False)]
    out: Annotated[Place | None, folder("discover-<model>-<inputs>")]
    figures: Figures
    fresh: Fresh
    dry_run: Annotated[
        bool, Arg("Check everything, and give the plan and its cost in `summary`; do nothing.", False, "")
    ]
    limit: Limit


class RewardArguments(Called, ModelSettings, total=False):
    adapter: Annotated[Place | None, Arg("Score with an adapter: its folder, or that of a finished run.", flag="")]
    dose: AdapterDose


class TextArguments(Paid, ModelSettings, DoseSettings, total=False):
    """Options of `cda.label`."""


class RewriteArguments(TextArguments, total=False):
    direction: Annotated[Literal["add", "remove"], Arg("`add` the bias or `remove` it.", "add", "")]


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """Options of `cda inspect`."""

    n: Annotated[int, Arg("How many to show, and to make, of each bias and direction.")] = 8
    bias: Annotated[tuple[str, ...], Arg("Look at this bias alone.")] = ()
    seed: Annotated[int, Arg("Draws what is shown.")] = 42
    worst: Annotated[
        str | None,
        Arg(
            "Show first where the reward moved most (reward), what else changed most (drift), or what failed (failed)."
        ),
    ] = None
    model: Annotated[
        str | None, Arg("Whose rewards to show; `none` for none. Default: those available, else the recipe's model.")
    ] = None
    responses: Annotated[
        str | None, Arg("Rewrite answers of this file: prompt, response and, where known, has_attribute.")
    ] = None
    fresh: Annotated[bool, Arg("Make a few now, even where the recipe's run holds rewrites.")] = False
    limit: Annotated[
        int, Arg("Take the numbers from at most so many of each bias and direction.", more={"min": 1, **_COMMON})
    ] = 200
    html: Annotated[str | None, Arg("Write a page to this file as well.")] = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class TriplesOptions:
    """Options of `cda triples`; their source is exactly one of the three files."""

    queries: Annotated[str | None, Arg("Prompts or conversations; clean questions are kept.")] = None
    topics: Annotated[str | None, Arg("A topic a line; questions are written on them.")] = None
    responses: Annotated[str | None, Arg("Rows of prompt, response and, where known, has_attribute.")] = None
    kind: Annotated[Literal["opinion", "technical"], Arg("Of questions on topics: opinion or technical.")] = "technical"
    per_topic: Annotated[int, Arg("Questions on each topic.")] = 5
    limit: Limit = None


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """Options of `cda merge`."""

    out: Annotated[Path, Arg("New folder for the result.")]
    doses: Annotated[
        tuple[float, ...],
        Arg(
            "How much of each adapter, one for each: 0 none, 1 as trained, more is possible. Default: a run's chosen dose, 1 of an "
            "adapter.",
            flag="dose",
        ),
    ] = ()
    base: Annotated[str | None, Arg("Base model, where the adapters do not say it or say another.")] = None
    precision: Annotated[str, Arg("Of the merged weights: fp32 or bf16.")] = "fp32"
    adapter_only: Annotated[bool, Arg("Write one adapter at the dose, and merge nothing.")] = False
    push: Annotated[str | None, Arg("Upload the result to the hub as organisation/name; private where new.")] = None


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of `cda study export`."""

    tool: Annotated[
        Literal["csv", "labelstudio", "prolific"],
        Arg("Where people judge: csv (a table for a spreadsheet or form), labelstudio or prolific.", flag="to"),
    ] = "csv"
    biases: Annotated[tuple[str, ...], Arg("Name or bias file. Default: those in the file.", flag="bias")] = ()
    judgements: Annotated[int, Arg("Wanted on each contrast, by different people.")] = 3
    quota: Annotated[int | None, Arg("Most contrasts of a participant. Default: all (experts), 40 (crowd).")] = None
    people: Annotated[int | None, Arg("Number of participants. Default: as many as are needed.")] = None
    kind: Annotated[Literal["experts", "crowd"], Arg("experts (asked for reasons) or crowd.", flag="participants")] = (
        "experts"
    )
    checks: Annotated[
        int | None, Arg("Attention checks of each participant. Default: 0 (experts), 3 (crowd).", flag="attention")
    ] = None
    seed: Annotated[int, Arg("Of assignments, orders and sides.")] = 0
    columns: Annotated[Mapping[str, str], COLUMN] = field(default_factory=dict)
    limit: Limit = None


class Option(NamedTuple):
    """A declared option: its type in Python, and what stands with it."""

    kind: Any
    arg: Arg
    required: bool = False

    @property
    def in_command(self) -> Any:
        """Its type on a command line: several values are a list, None if there are none; anything else but numbers is text."""
        members = (self.kind, *get_args(self.kind))
        for member in members:
            if get_origin(member) in (Sequence, Mapping) or get_args(member)[1:] == (...,):
                item = get_args(member)[0]
                return list[item if item in (int, float) else str] | None  # type: ignore[misc]
        plain = next((kind for kind in (bool, int, float) if kind in members and str not in members), str)
        return plain | None if self.arg.default is None and not self.required else plain


def options_of(declared: type) -> dict[str, Option]:
    """The options of a job by name, those that several jobs share first; settings of recipes are none."""
    hints = get_type_hints(declared, include_extras=True)
    found = {
        name: Option(hint.__origin__, *hint.__metadata__)
        for name, hint in hints.items()
        if hasattr(hint, "__metadata__")
    }
    if not is_dataclass(declared):
        return found
    own = {each.name: None if each.default is MISSING else each.default for each in fields(declared)}
    empty = {each.name for each in fields(declared) if each.default is MISSING is each.default_factory}
    return {
        name: Option(option.kind, option.arg._replace(default=own[name]), name in empty)
        for name, option in found.items()
    }


def defaults_of(declared: type) -> dict[str, Any]:
    """What a function gets for options that are not given."""
    return {name: option.arg.default for name, option in options_of(declared).items()}
