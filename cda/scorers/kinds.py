"""The kinds of scorers: what a model's name alone says of each, before anything is opened, and the class that opens it.

A new kind is an entry of `KINDS`, and its class (a `NamedScorer`). All others ask what a kind can do, and none which it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cda.keys import address_problem
from cda.scorers.own_code import is_own

OfPath = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class ScorerKind:
    """What a kind of scorer can do."""

    name: str
    opened_by: str
    """Module and class of its `NamedScorer`, imported when a scorer is opened: recipes are checked without it."""
    starts: tuple[str, ...] = ()
    """Beginnings of the names of this kind; the first is a word for the kind, and no part of the model's name."""
    takes: Callable[[str], bool] = lambda name: False  # noqa: ARG005
    """Names of this kind that begin in another way."""
    compares: bool = False
    """It compares two responses, and rewards no single one, whatever its model is."""
    trainable: bool = False
    """A sequence classifier: loaded here, trained with an adapter, and scored in several processes."""
    asks_llm: bool = False
    """Every score is an answer of an LLM, which may cost money."""
    problems: Callable[[str, str | None], Iterable[str]] = lambda name, llm: ()  # noqa: ARG005
    """Mistakes in a name, with `llm.model`."""
    is_address: bool = False
    """Its names are addresses, in which no key may stand."""
    written: Callable[[str, OfPath], str] = lambda bare, of_path: bare  # noqa: ARG005
    """A name without the word for its kind, with each part that may be a path as a function of it."""

    def bare(self, name: str) -> str:
        """A model's name without the word for its kind."""
        return name.removeprefix(self.starts[0]) if self.starts else name

    def key_problem(self, name: str) -> str | None:
        """Why a name may hold a key, which is never repeated."""
        return address_problem(self.bare(name)) if self.is_address else None

    def llms(self, name: str) -> tuple[str, ...]:
        """The LLMs whose answers the scores are: judges, or the one that grades; none of other models."""
        return tuple(each.strip() for each in self.bare(name).split(",")) if self.asks_llm else ()


def scorer_kind(name: str) -> ScorerKind:
    """Kind of scorer that a model's name stands for.

    `judge:NAME` an LLM judge, `judge:NAME,NAME` a panel; `grade:NAME` an LLM that grades single answers; `dpo:POLICY` or `dpo:POLICY,REFERENCE` the log-ratio of two causal models;
    `served:URL` or an http address a served reward model; `scores:FILE` scores that are there already; `package.module:function` or `file.py:function` the user's own; anything else a sequence classifier.
    """
    return next((kind for kind in KINDS if name.startswith(kind.starts) or kind.takes(name)), CLASSIFIER)


def _panel_problems(name: str, llm: str | None) -> Iterator[str]:
    judges = JUDGE.llms(name)
    if "" in judges:
        yield f"{name}: has a comma without a judge; a panel is judge:NAME,NAME"
    yield from (f"{name}: names {judge} twice" for judge in dict.fromkeys(judges) if judge and judges.count(judge) > 1)
    if llm not in judges:
        one = f"the judge is {judges[0]}; name another as judge:NAME"
        several = f"the judges are {', '.join(judges)}; name one of them, or others as judge:NAME,NAME"
        yield f"llm.model={llm}: {one if len(judges) == 1 else several}"


def _grade_problems(name: str, llm: str | None) -> Iterator[str]:
    graders = GRADE.llms(name)
    if len(graders) > 1:
        each = " ".join(f"grade:{grader}" for grader in graders if grader)
        yield f"{name}: names several; grades are one LLM's. Compare them: cda compare {each}"
    elif llm != graders[0]:
        yield f"llm.model={llm}: the grades are {graders[0]}'s; name another as grade:NAME"


def _of_file(bare: str, of_path: OfPath) -> str:
    file, _, function = bare.rpartition(":")
    return f"{of_path(file)}:{function}"


def _of_models(bare: str, of_path: OfPath) -> str:
    return ",".join(map(of_path, filter(None, bare.split(",", 1))))


CLASSIFIER = ScorerKind(
    "classifier",
    "cda.resources.model_scorers:Classifier",
    trainable=True,
    written=lambda name, of_path: of_path(name),
)
JUDGE = ScorerKind(
    "judge", "cda.resources.scorers:Judge", ("judge:",), compares=True, asks_llm=True, problems=_panel_problems
)
GRADE = ScorerKind("grade", "cda.resources.scorers:Grade", ("grade:",), asks_llm=True, problems=_grade_problems)

KINDS = [
    JUDGE,
    GRADE,
    ScorerKind("log-ratio", "cda.resources.model_scorers:LogRatio", ("dpo:",), written=_of_models),
    ScorerKind("served", "cda.resources.scorers:Served", ("served:", "http://", "https://"), is_address=True),
    ScorerKind("scores", "cda.resources.scorers:Scores", ("scores:",), written=lambda file, of_path: of_path(file)),
    ScorerKind(
        "function",
        "cda.resources.scorers:Function",
        takes=lambda name: is_own(name) and not Path(name).is_dir(),
        written=_of_file,
    ),
    CLASSIFIER,
]
