"""Options of jobs, each declared once: its type, default and sentence, of which arguments of functions and options of commands are
made. Imports nothing heavy, so that `cda --help` and completion read it."""

# Annotations are objects here, not text: the signatures of functions and commands are made from them.
import ast
import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache, reduce
from itertools import pairwise
from numbers import Integral, Real
from operator import or_
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Union, get_args, get_origin, get_type_hints

from cda.records import PERCENT

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

    says: str = ""
    """Its sentence in `help()` and in `--help`; empty: the text under its field."""
    default: object = None
    """None stands for False in a switch."""
    flag: str | None = None
    """Name of the command's option, if it is not the argument's; empty: commands have none."""
    more: Mapping[str, Any] = {}
    """Arguments of `typer.Option`, with the name of a function of `cda.cli.complete`."""
    setting: str = ""
    """The settings of a recipe that it stands for, with spaces between several."""
    form: str | None = None
    """Words for its type, if not those of every option of this type."""


def folder(named: str) -> Arg:
    """The place of results, by the end of its default's name."""
    return Arg(f"Folder for the results. Default: runs/{named}.", setting="run.folder")


_COMMON = {"rich_help_panel": COMMON}
_BIAS = {
    "flag": "bias", "more": {"autocompletion": "biases"}, "setting": "biases", "form": "a name, a path, or a list of them",
}  # fmt: skip
_NAMES = "a name, or a list of them"
FIGURES = Arg(
    "Also write every figure of the report for a paper, as svg or pdf; pdf:double as wide as two columns.", more=_COMMON
)
LIMIT = Arg(
    "For a quick look: take at most so many prompts, pairs or contrasts of each file and bias, drawn with the seed. A verdict on "
    "one model needs at least 30 prompts, and at least 30 whose sides are alike otherwise.",
    more={"min": 1, **_COMMON},
)
COLUMN = Arg("Columns of your file under another name, ours=theirs.", flag="column", more=_COMMON)
AllBiases = Annotated[
    Biases | None,
    Arg(
        "Names or bias files. Default: all five, and those of second turns where embedded texts are measured.", **_BIAS
    ),
]
Contrasts = Annotated[
    Data | None,
    Arg("Contrasts of your own: prompt, base, perturbed. Default: the embedded ones.", setting="audit.contrasts"),
]
ContrastsOrNone = Annotated[
    Data | None,
    Arg(
        "Contrasts of your own: prompt, base, perturbed; `none`: RATE triples alone. Default: the embedded ones.",
        setting="audit.contrasts",
    ),
]
Figures = Annotated[str | None, FIGURES]
Limit = Annotated[int | None, LIMIT]
AUDITED = "audit.max_contrasts audit.max_triples audit.max_quality audit.max_samples"
LIMITED = f"data.max_pairs data.max_contrasts {AUDITED}"
"""What `--limit` sets of a training."""
LimitOfAudit = Annotated[int | None, LIMIT._replace(setting=AUDITED)]
Columns = Annotated[Mapping[str, str] | None, COLUMN]
Votes = Annotated[Data | None, Arg("People's votes on them: id and vote, any number an item.", setting="audit.votes")]
Quality = Annotated[
    Data | None, Arg("Preference pairs for accuracy; `none` for no such check.", setting="audit.quality")
]
Fresh = Annotated[bool, Arg("Measure again, even if the folder holds the same.")]
Against = Annotated[Model | None, Arg("A second model to compare with.")]
Adapter = Annotated[Place | None, Arg("Measure again with an adapter: its folder, or that of a finished run.")]
AdapterDose = Annotated[
    float | None, Arg("How much of the adapter, 1 as trained. Default: the dose chosen in a run, 1 of an adapter.")
]
Split = Annotated[str, Arg("Split of a folder or hub id with several.", "train")]


COLUMN_SETTINGS = {
    "pairs": "data.columns",
    "supplement": "data.supplement_columns",
    "taught": "data.contrast_columns",
    "contrasts": "audit.columns",
    "triples": "audit.triple_columns",
    "quality": "audit.quality_columns",
    "samples": "audit.sample_columns",
    "responses": "discover.columns",
}
"""A file that a command reads to the setting with its columns."""


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

    progress: Annotated[bool, Arg(default=True, flag="")]
    """Show progress bars."""
    overrides: Annotated[Sequence[str] | None, Arg(flag="", form="a list of words such as 'seed=1'")]
    """Settings as words `section.key=value`; messages then name the command line."""


class Paid(Called, total=False):
    """Options of every function that may ask an LLM."""

    budget_usd: Annotated[float | None, Arg(flag="", setting="llm.budget_usd", form="a number of dollars")]
    """Dollars that may be spent on LLMs, for all models together; nothing is spent if the estimate exceeds it."""
    confirm: Annotated[Confirm, Arg(default=False, flag="")]
    """Agree to the cost of asking an LLM, of all models at once; `"ask"`: ask on the terminal."""


class AuditArguments(Paid, ModelSettings, DoseSettings, total=False):
    biases: AllBiases
    contrasts: ContrastsOrNone
    votes: Votes
    verdicts: Annotated[Data | None, Arg(setting="audit.verdicts")]
    """LLM judges' verdicts on them, to stretch few votes (PPI++)."""
    quality: Quality
    triples: Annotated[Data | None, Arg(setting="audit.triples")]
    """RATE triples of your own; `none` for no RATE."""
    samples: Annotated[Data | None, Arg(setting="audit.samples")]
    """Responses sampled from a policy, several to a prompt: what it becomes if it is optimised against the reward."""
    by: Annotated[str | Sequence[str] | None, Arg(setting="audit.by", form=_NAMES)]
    """A column of your contrasts or triples to compare effects by, such as a topic."""
    figures: Figures
    out: Annotated[Place | None, Arg(setting="run.folder")]
    """Folder of the run, whose results are reused unless the model is in memory; of a comparison that of its models' runs
    and `comparison`. Default: below runs/."""
    limit: LimitOfAudit
    fresh: Fresh


class TrainArguments(Paid, DoseSettings, total=False):
    model: str | Path | dict[str, object] | None
    """Hub id or folder of the reward model; or the recipe's section, such as `{"preset": "skywork-llama-8b"}`."""
    pairs: Annotated[Data | None, Arg(setting="data.pairs")]
    """Preference pairs to debias on: prompt, chosen, rejected."""
    biases: Annotated[Biases | None, Arg(**_BIAS)]
    """Names or bias files, in place of the recipe's."""
    contrasts: Contrasts
    votes: Votes
    quality: Quality
    until: Annotated[str, Arg(default="report")]
    """Last stage: label, synthesize, train, dose, audit or report."""
    only: bool
    """Run this stage alone; earlier ones must have finished."""
    figures: Figures
    dry_run: bool
    """Check everything, log the settings and the plan, do nothing."""
    out: Annotated[Place | None, folder("<recipe>")._replace(says="Folder of the run. Default: runs/<recipe>.")]
    limit: Annotated[int | None, LIMIT._replace(setting=LIMITED)]


class DataArguments(Paid, ModelSettings, DoseSettings, total=False):
    biases: Annotated[Biases | None, Arg(**_BIAS)]
    """Names or bias files. Default: all five, or those that `labels` has labels of."""
    labels: Annotated[Sequence[Place] | Place | None, Arg(form=_NAMES)]
    """Files that say which sides have each bias, the pairs themselves or others. Default: measured, or by llm.model."""
    by: Annotated[str | Sequence[str] | None, Arg(form=_NAMES)]
    """Columns by whose values the pairs are measured too, such as source."""
    rows: Place | None
    """Also write every row to this .jsonl file: your columns, the side with each bias, measured values, and a suggested weight for
    `data.weights`, smaller where biases and length alone tell the choice."""
    columns: Columns
    split: Split
    out: Annotated[Place | None, folder("data-of-<pairs>")]
    figures: Figures
    limit: Limit


class LabelArguments(Paid, ModelSettings, DoseSettings, total=False):
    """Options of `cda label`."""

    biases: Annotated[Biases | None, Arg(**_BIAS)]
    """Of a file of pairs: names or bias files. Default: all five."""
    split: Annotated[str, Arg("Of pairs in a folder or hub id with several splits: one of them.", "train")]
    out: Place | None
    """Of a recipe: folder of the run; default: runs/<recipe>. Of a file of pairs: the .jsonl file for its rows with labels; default:
    runs/label-of-<pairs>.jsonl."""
    limit: Limit


class QualityArguments(Paid, ModelSettings, total=False):
    over: Data | None
    """Win rate: the data are outputs (prompt, response), and these are others to the same prompts; the i-th output to a
    prompt is compared with the i-th one here."""
    adapter: Adapter
    against: Against
    dose: AdapterDose
    out: Annotated[Place | None, folder("quality-<model>-<inputs>")]
    figures: Figures
    limit: Annotated[int | None, LIMIT._replace(setting="audit.max_quality")]


class BestOfArguments(Called, ModelSettings, total=False):
    adapter: Adapter
    against: Against
    dose: AdapterDose
    biases: Annotated[Biases | None, Arg(**_BIAS | {"setting": ""})]
    """Names or bias files. Default: all five."""
    sizes: Annotated[Sequence[int] | None, Arg(flag="n")]
    """Values of n. Default: 1, 2, 4, 8, … as far as half of the prompts reach."""
    betas: Annotated[Sequence[float] | None, Arg(flag="beta")]
    """KL penalties, in reward units, at which to look at the tilted policy besides the usual ones."""
    columns: Columns
    split: Split
    out: Annotated[Place | None, folder("best-of-<model>-<inputs>")]
    figures: Figures
    limit: Limit


class ScoreArguments(Paid, ModelSettings, total=False):
    adapter: Annotated[Place | None, Arg("Score with an adapter: its folder, or that of a finished run.")]
    dose: AdapterDose
    columns: Annotated[
        Mapping[str, str] | None,
        COLUMN._replace(says="Columns of your rows, or those to be added, under another name, ours=theirs."),
    ]
    split: Split
    part: Annotated[str | None, Arg(form="a text such as '3/16'")]
    """Score this part alone, such as 3/16: every sixteenth shard from the third on. Parts need not know of each other."""
    shard_rows: Annotated[int | None, Arg(more={"min": 1})]
    """Rows of a shard, which is what a killed process loses at most. Default: 10,000."""
    out: Annotated[Place | None, folder("score-<model>-<inputs>")]


class VotedArguments(Paid, ModelSettings, DoseSettings, total=False):
    """What a correction is chosen on: contrasts that people voted on, and quality pairs."""

    biases: AllBiases
    contrasts: Contrasts
    quality: Annotated[Data | None, Arg(setting="audit.quality")]
    """Preference pairs whose accuracy must not fall; `none` for no such check."""
    figures: Figures
    limit: Annotated[int | None, LIMIT._replace(setting="audit.max_contrasts audit.max_quality")]


class CalibrateArguments(VotedArguments, total=False):
    out: Annotated[Place | None, folder("calibrate-<model>-<inputs>")]


class DoseArguments(VotedArguments, total=False):
    out: Annotated[Place | None, folder("<recipe>, or dose-<model>-<inputs> with a second model")]


class DiscoverArguments(Paid, ModelSettings, total=False):
    judge: Model | None
    """What the model is held against: judge:NAME, or any other model. Default: judge:<llm.model>, or the embedded judge."""
    adapter: Place | None
    """Search the model with an adapter; held against the model without it."""
    dose: AdapterDose
    attributes: Annotated[Sequence[Place], Arg(default=(), flag="attribute", form="a list of texts or bias files")]
    """No search: measure these, in words or as bias files."""
    formats: bool
    """No search: measure bold, lists, headers, emoji, exclamations, links, yes-words."""
    responses: Annotated[Data | None, Arg(setting="discover.responses")]
    """Prompts with sampled responses. Default: sampled by the LLM."""
    prompts: Annotated[Data | None, Arg(setting="discover.prompts")]
    """Prompts to answer. Default: written on twenty topics."""
    by_topic: Annotated[bool, Arg(setting="discover.by_topic")]
    """Search and test in each topic of the prompts (their column topic) by itself, then measure across topics."""
    topics: Annotated[
        Sequence[str], Arg(default=(), flag="topic", setting="discover.only_topics", form="a list of topics")
    ]
    """With a search by topic: these topics alone."""
    review: bool
    """Stop before the last test, for a person to drop candidates."""
    out: Annotated[Place | None, folder("discover-<model>-<inputs>")]
    figures: Figures
    fresh: Fresh
    dry_run: Annotated[bool, Arg(flag="")]
    """Check everything, and give the plan and its cost in `summary`; do nothing."""
    limit: Annotated[int | None, LIMIT._replace(setting="discover.max_prompts")]


class NewBiasArguments(Paid, ModelSettings, DoseSettings, total=False):
    name: Annotated[str, Arg()]
    """Name of the bias, which also stands in tables. Default: from the words."""
    pairs: Annotated[Data | None, Arg(setting="data.pairs")]
    """Preference pairs to take thresholds and phrases from, and to try it on. Default: the embedded ones."""
    prompt: Place | None
    """Prompt file by which the LLM drafts. Default: ours."""
    out: Place | None
    """The bias file, which must not be there yet. Default: <name>.yaml in this folder."""


class RewardArguments(Called, ModelSettings, total=False):
    adapter: Annotated[Place | None, Arg(flag="")]
    """Score with an adapter: its folder, or that of a finished run."""
    dose: AdapterDose


class TextArguments(Paid, ModelSettings, DoseSettings, total=False):
    """Options of `cda.label`."""


class RewriteArguments(TextArguments, total=False):
    direction: Annotated[Literal["add", "remove"], Arg(default="add", flag="")]
    """`add` the bias or `remove` it."""


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """Options of `cda inspect`."""

    n: int = 8
    """How many to show, and to make, of each bias and direction."""
    bias: tuple[str, ...] = ()
    """Look at this bias alone."""
    seed: int = 42
    """Draws what is shown."""
    worst: str | None = None
    """Show first where the reward moved most (reward), what else changed most (drift), or what failed (failed)."""
    model: str | None = None
    """Whose rewards to show; `none` for none. Default: those available, else the recipe's model."""
    responses: str | None = None
    """Rewrite answers of this file: prompt, response and, where known, has_attribute."""
    fresh: bool = False
    """Make a few now, even where the recipe's run holds rewrites."""
    limit: Annotated[int, Arg(more={"min": 1, **_COMMON})] = 200
    """Take the numbers from at most so many of each bias and direction."""
    html: str | None = None
    """Write a page to this file as well."""
    prompts: bool = False
    """Show every prompt that an LLM would get of one example, and ask none; TARGET may be judge:NAME or grade:NAME too."""
    consent: Literal["given", "by question"] = "by question"


@dataclass(frozen=True, slots=True)
class TriplesOptions:
    """Options of `cda triples`; their source is exactly one of the three files."""

    bias: tuple[str, ...] = ()
    """Name or bias file."""
    queries: str | None = None
    """Prompts or conversations; clean questions are kept."""
    topics: str | None = None
    """A topic a line; questions are written on them."""
    responses: str | None = None
    """Rows of prompt, response and, where known, has_attribute."""
    kind: Literal["opinion", "technical"] = "technical"
    """Of questions on topics: opinion or technical."""
    per_topic: int = 5
    """Questions on each topic."""
    limit: Limit = None
    consent: Literal["given", "by question"] = "by question"


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """Options of `cda merge`."""

    out: Path
    """New folder for the result."""
    doses: Annotated[tuple[float, ...], Arg(flag="dose")] = ()
    """How much of each adapter, one for each: 0 none, 1 as trained, more is possible. Default: a run's chosen dose, 1 of an
    adapter."""
    base: str | None = None
    """Base model, where the adapters do not say it or say another."""
    precision: str = "fp32"
    """Of the merged weights: fp32 or bf16."""
    adapter_only: bool = False
    """Write one adapter at the dose, and merge nothing."""
    push: str | None = None
    """Upload the result to the hub as organisation/name; private where new."""


class SampleArguments(TypedDict, total=False):
    """Options of `cda samples`."""

    share: Annotated[float, Arg(default=0.5)]
    """Expected skew or miscalibration."""
    flipped: Annotated[float, Arg(default=0.3)]
    """Expected share of contrasts whose preference training flips."""
    per_prompt: Annotated[int, Arg(default=1)]
    """Contrasts of one prompt."""
    within_prompt: Annotated[float, Arg(default=0.3)]
    """How alike contrasts of one prompt are (ICC, 0 to 1)."""
    vote_correlation: Annotated[float, Arg(default=0.4)]
    """How alike two people's votes on one item are (0 to 1)."""
    majority_error: Annotated[float, Arg(default=0.1)]
    """Tolerated share of majorities that more votes would turn."""
    effect: Annotated[
        float,
        Arg(f"Half of the wanted {PERCENT} interval of a mean margin or RATE effect, in the unit of --sd.", 0.1),
    ]
    sd: Annotated[float, Arg(default=1.0)]
    """How much margins vary between prompts; 1: --effect is in SDs. An audit's sd_margin."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of `cda study export`."""

    tool: Annotated[Literal["csv", "labelstudio", "prolific"], Arg(flag="to")] = "csv"
    """Where people judge: csv (a table for a spreadsheet or form), labelstudio or prolific."""
    biases: Annotated[tuple[str, ...], Arg(flag="bias")] = ()
    """Name or bias file. Default: those in the file."""
    judgements: int = 3
    """Wanted on each contrast, by different people."""
    quota: int | None = None
    """Most contrasts of a participant. Default: all (experts), 40 (crowd)."""
    people: int | None = None
    """Number of participants. Default: as many as are needed."""
    kind: Annotated[Literal["experts", "crowd"], Arg(flag="participants")] = "experts"
    """experts (asked for reasons) or crowd."""
    checks: Annotated[int | None, Arg(flag="attention")] = None
    """Attention checks of each participant. Default: 0 (experts), 3 (crowd)."""
    seed: int = 0
    """Of assignments, orders and sides."""
    columns: Annotated[Mapping[str, str], COLUMN] = field(default_factory=dict)
    limit: Limit = None


_WORDS: Mapping[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a name",
    Place: "a path",
    Confirm: "True, False or 'ask'",
    Sequence[int]: "a list of whole numbers",
    Sequence[float]: "a list of numbers",
    Mapping[str, str]: "a dict of names, such as {'prompt': 'question'}",
}
"""Types to their words in messages; an option of a type without words, such as rows or a model, is checked where it is read."""


def is_of_type(value: object, kind: Any) -> bool:
    """True if a value is of a declared type: True and False are no numbers, and a text is no list."""
    origin, members = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(is_of_type(value, member) for member in members)
    if origin is Literal:
        return isinstance(value, str) and value in members
    if origin is Mapping:
        pairs = value.items() if isinstance(value, Mapping) else [(None, None)]
        return all(is_of_type(key, members[0]) and is_of_type(each, members[1]) for key, each in pairs)
    if origin is Sequence:
        if not isinstance(value, Collection) or isinstance(value, str | bytes | Mapping):
            return False
        return all(is_of_type(each, members[0]) for each in value)
    found = {int: Integral, float: Real, Path: PathLike}.get(kind, kind)
    return isinstance(value, found) and (kind is bool or not isinstance(value, bool))


class Option(NamedTuple):
    """A declared option: its type in Python, and what stands with it."""

    kind: Any
    arg: Arg
    required: bool = False

    @property
    def plain(self) -> Any:
        """Its type without None, which stands for a default."""
        members = [each for each in get_args(self.kind) if each is not NoneType]
        return reduce(or_, members) if get_origin(self.kind) in (Union, UnionType) else self.kind

    @property
    def form(self) -> str | None:
        """Its type in words; None if it is not checked by it."""
        least = f" from {self.arg.more['min']}" if "min" in self.arg.more else ""
        words = self.arg.form or _WORDS.get(self.plain)
        return words and f"{words}{least}"

    def takes(self, value: Any) -> bool:
        """True for None, and for a value of its type that is not too small."""
        if value is None or self.form is None:
            return True
        return is_of_type(value, self.plain) and ("min" not in self.arg.more or value >= self.arg.more["min"])

    @property
    def names_files(self) -> bool:
        """True if a text among its values is the name of a file, folder or model."""
        members = {each for member in get_args(self.kind) for each in (member, *get_args(member))}
        return bool({Path, PathLike[str]} & members) and "texts" not in (self.arg.form or "")

    def word(self, name: str) -> str:
        """Its name on the command line, without the dashes."""
        return (self.arg.flag or name).replace("_", "-")

    @property
    def several(self) -> bool:
        """True if it takes several values."""
        return any(get_origin(each) is Sequence for each in (self.kind, *get_args(self.kind)))

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


@cache
def _sentences(module: str) -> Mapping[str, Mapping[str, str]]:
    """The text under each field of the module's classes, by class and field, those of their bases too."""
    found: dict[str, dict[str, str]] = {}
    shared = {} if module == __name__ else _sentences(__name__)
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.ClassDef):
            own = found[node.name] = {}
            for base in map(ast.unparse, node.bases):
                own |= found.get(base) or shared.get(base, {})
            for field_, text in pairwise(node.body):
                match field_, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                        own[name] = " ".join(said.split())
    return found


@cache
def options_of(declared: type) -> Mapping[str, Option]:
    """The options of a job by name, those that several jobs share first: fields with an `Arg`, or with a text under them; settings of
    recipes have none."""
    said, found = _sentences(declared.__module__)[declared.__name__], dict[str, Option]()
    own = {each.name: each for each in fields(declared)} if is_dataclass(declared) else {}
    for name, hint in get_type_hints(declared, include_extras=True).items():
        kind, arg = (hint.__origin__, hint.__metadata__[0]) if hasattr(hint, "__metadata__") else (hint, Arg())
        if not (says := arg.says or said.get(name)):
            continue
        default = False if arg.default is None and kind is bool else arg.default
        if name in own:
            default = None if own[name].default is MISSING else own[name].default
        required = name in own and own[name].default is MISSING is own[name].default_factory
        found[name] = Option(kind, arg._replace(says=says, default=default), required)
    return found


def defaults_of(declared: type) -> dict[str, Any]:
    """What a function gets for options that are not given."""
    return {name: option.arg.default for name, option in options_of(declared).items()}
