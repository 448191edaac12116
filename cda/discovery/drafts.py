"""A bias file drafted from a user's words without an LLM: known by everyday words, made of quoted wordings, or with blanks; with
thresholds and phrases from the user's own pairs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import ValidationError

from cda.biases import Bias, BiasMeasure, builtin_names
from cda.discovery.attribute import attribute_bias, bias_yaml, one_line, opposite_bias, shipped_attribute
from cda.discovery.mined import inserted, sentence_phrases
from cda.discovery.rules import Phrasing, Position, phrase_bias, phrasing_of
from cda.embedded.rules import RuleRewriter
from cda.errors import CdaError
from cda.features import TEXT_FEATURES, phrase_pattern, words
from cda.files.yaml_file import read_yaml_mapping
from cda.records import Prompt, RewriteRequest
from cda.report.numbers import listed

TABLE = Path(__file__).parent / "everyday.yaml"
MOST_WITH_ANY = 0.6
"""Share of answers with any of a feature up to which any of it counts as the bias; above, more than the median does."""
_MOST_PHRASES, _MIN_PROMPTS = 8, 2
_MOST_TRIED, _LEAST_REACHED = 40, 0.5
_STEM_LETTERS, _MOST_STEMS = 5, 8
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”“]+)[”“]|„([^“”]+)[“”]|«([^»]+)»|‘([^’]+)’|(?<!\w)'([^']+)'(?!\w)")
_PLACES: tuple[tuple[str, Position], ...] = (
    (r"\b(?:sentences?|paragraphs?|lines?)\b.*\b(?:with|by)\b|\b(?:open|start|begin)\w* (?:\w+ )?(?:sentences?|paragraphs?)", "before"),
    (r"\b(?:open|start|begin)", "opening"),
    (r"\b(?:clos|end|finish|conclud)", "closing"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Draft:
    """A bias with what it was made of, in words; parts that were left out, by reason; and lines of comment for its blanks."""

    bias: Bias
    origin: str
    left_out: dict[str, int] = field(default_factory=dict)
    blanks: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """What an LLM, or the user, has to do for want of it."""
        found = () if self.bias.measure else ("a measure: labels need an LLM, or fill in the blank in the file",)
        return (*found, *(() if self.bias.offline else ("rules: rewrites need an LLM, or fill in `offline:`",)))

    def yaml(self, said: str) -> str:
        """The file's text; it loads as the bias itself, whatever the words hold."""
        head = f"Written by `cda bias new` from the words: {said}\nMade of: {self.origin}\nEvery field: cda/biases/README.md"
        blanks = "\n".join(f"# {one_line(line)}".rstrip() for line in self.blanks)
        return bias_yaml(self.bias, head) + (f"{blanks}\n" if blanks else "")


Kind = Literal["shipped", "starters", "features"]
_SECTIONS: dict[str, Kind] = {
    "shipped": "shipped",
    "other_ends": "shipped",
    "starters": "starters",
    "features": "features",
}


class Known(NamedTuple):
    """What words are known as; `opposite`: they say that it is lacking."""

    kind: Kind
    name: str
    opposite: bool


@cache
def _table() -> dict[str, Any]:
    return read_yaml_mapping(TABLE)


def known_as(said: str) -> Known | None:
    """What a description is an everyday name of, whatever filling words stand around it; None if it is of nothing known.

    >>> known_as("Uses too much jargon!"), known_as("lacks bullet points")
    (Known(kind='shipped', name='jargon', opposite=False), Known(kind='shipped', name='structure', opposite=True))
    """
    plain = re.sub(r"[^\w\s]", " ", re.sub(r"['’]", "", said.casefold()))
    lacks = re.match(rf"(?:answers? |responses? )?(?:{_table()['negations']})\s+", plain)
    ways = [(plain, False), *([(plain[lacks.end() :], True)] if lacks else [])]
    fillers = {*_table()["fillers"].split()}
    for text, opposite in ways:
        bare = " ".join(word for word in text.split() if word not in fillers)
        for section, kind in _SECTIONS.items():
            for name, pattern in _table()[section].items():
                if re.fullmatch(pattern, bare):
                    return Known(kind, name, opposite != (section == "other_ends"))
    return None


@dataclass(frozen=True, slots=True)
class Texts:
    """Answers from which thresholds and phrases are taken, and the numbers of their prompts; the draft is not checked on them."""

    prompts: Sequence[Prompt]
    answers: Sequence[str]
    numbers: Sequence[int]


def drafted(said: str, name: str | None, texts: Texts) -> Draft:
    """The draft of a description, which is one line of words. ValueError as of `attribute_bias`."""
    plain = attribute_bias(said, name)
    known = known_as(said)
    if quoted := _wordings(said):
        draft = _of_wordings(plain, said, quoted, texts)
    elif known is not None and known.kind == "starters":
        found = shipped_attribute(known.name)
        base = opposite_bias(found) if known.opposite else found
        draft = Draft(
            base.model_copy(update={"name": plain.name}), f"question, measure and rules of cda's '{known.name}'"
        )
    elif known is not None and known.kind == "features":
        measure = measure_by(known.name, plain, texts)
        bias = bias_with(plain, measure=measure, treatment=[*plain.treatment, known.name])
        draft = Draft(opposite_of(plain, bias) if known.opposite else bias, f"the measured feature {known.name}")
    else:
        draft = Draft(plain, "the words alone")
    return finished(draft, said, texts)


def opposite_of(plain: Bias, bias: Bias) -> Bias:
    """A bias of lacking something, in the user's own words, with the measure turned around."""
    return plain.model_copy(update={"measure": opposite_bias(bias).measure, "treatment": bias.treatment})


def finished(draft: Draft, said: str, texts: Texts) -> Draft:
    """The draft with phrases from the pairs, without rules that do not reach the pairs' answers, and with its blanks."""
    draft = with_reach(with_phrases(draft, texts), texts)
    lines: list[str] = []
    if draft.bias.measure is None:
        lines += ["MISSING: what to count, so that labels need no LLM. Fill in one of these:"]
        lines += [
            "measure: {feature: …, present_above: …}",
            "pattern: '(?i:\\b(?:…|…)\\b)'  # with feature: pattern_count",
        ]
        if stems := words_like(said, texts.answers):
            shown = ", ".join(f"{word} ({n})" for word, n in stems)
            lines += [f"Words of the pairs that look like yours (answers that have them): {shown}"]
            lines += [
                f"markers: [{', '.join(word for word, _ in stems)}]",
                "measure: {feature: markers_per_100_words, present_above: 0}",
            ]
    if draft.bias.offline is None:
        lines += ["MISSING: rules that rewrite without an LLM, such as these:"]
        lines += ["offline: {lead_with: ['…,'], lead_every: 3, swaps_remove: [{find: '…', put: ''}]}"]
    return replace(draft, blanks=tuple(lines))


def _wordings(said: str) -> list[str]:
    """What a description has in quotation marks; nothing if it is all in them."""
    found = [one_line(next(filter(None, match))) for match in _QUOTED.findall(said)]
    around = re.search(r"\w", _QUOTED.sub("", said))
    return [each for each in found if re.search(r"\S", each)] if around else []


def _of_wordings(plain: Bias, said: str, wordings: list[str], texts: Texts) -> Draft:
    """A bias of wordings in quotation marks, at the place that the words around them name."""
    around = _QUOTED.sub(" with ", said.casefold())
    place = next((place for pattern, place in _PLACES if re.search(pattern, around)), None)
    last = wordings[0][-1]
    if place is None and last in ".!?":
        place = "between"
    elif place is None and (last in ",:" or wordings[0].casefold().endswith(" that")):
        place = "before"
    if place in ("closing", "between"):
        wordings = [each if each[-1] in ".!?…" else f"{each}." for each in wordings]
    told = f"the wordings in quotation marks ({listed(wordings)})"
    if place is not None:
        return Draft(phrase_bias(Phrasing(place, tuple(wordings))).model_copy(update={"name": plain.name}), told)
    made = [found for each in wordings if (found := inserted(each.casefold(), texts.answers)) is not None]
    rules = None
    if made:
        swaps = [bias.offline.model_dump() for bias in made if bias.offline]
        rules = {key: [swap for each in swaps for swap in each[key]] for key in ("swaps_add", "swaps_remove")}
    marked = measure_by("markers_per_100_words", plain.model_copy(update={"markers": wordings}), texts)
    treatment = [*plain.treatment, "markers_per_100_words"]
    return Draft(bias_with(plain, markers=wordings, measure=marked, treatment=treatment, offline=rules), told)


def bias_with(bias: Bias, **changed: object) -> Bias:
    """The bias with other fields, checked as a file is. ValidationError as of that."""
    content = bias.model_dump(exclude_defaults=True) | ({"opposite": bias.opposite} if bias.opposite else {})
    changed = {key: value.model_dump(exclude_none=True) if isinstance(value, BiasMeasure) else value
               for key, value in changed.items()}  # fmt: skip
    return Bias.model_validate(content | changed)


def measure_by(feature: str, bias: Bias, texts: Texts) -> BiasMeasure:
    """The feature as a measure: any of it, or more than its median if most answers have some; a count between two whole numbers."""
    values = np.array([bias.measured(text, feature) for text in texts.answers], float)
    values = values[~np.isnan(values)]
    common = len(values) > 0 and float((values > 0).mean()) > MOST_WITH_ANY
    above = float(np.median(values)) if common else 0.0
    return BiasMeasure(feature=feature, present_above=int(above) + 0.5 if feature in TEXT_FEATURES else round(above, 3))


def with_phrases(draft: Draft, texts: Texts) -> Draft:
    """Phrases before sentences of several prompts' answers in which the bias is measured, added to those that the rules put there."""
    bias, rules = draft.bias, draft.bias.offline
    if bias.measure is None or rules is None or not rules.lead_with or rules.reverse or bias.measure.relative:
        return draft
    found = [
        phrasing.wordings[0]
        for wording in sentence_phrases(texts.answers, texts.numbers, _MIN_PROMPTS)
        if (made := wording.make()) is not None and (phrasing := phrasing_of(made)) and phrasing.position == "before"
    ]
    known = {phrase.casefold() for phrase in rules.lead_with}
    new = [each for each in found if each.casefold() not in known and bias.shows(each)][:_MOST_PHRASES]
    if not new:
        return draft
    more = rules.model_copy(update={"lead_with": [*rules.lead_with, *new]})
    origin = f"{draft.origin}; from the pairs: {listed([repr(each) for each in new])}"
    return replace(draft, bias=bias.model_copy(update={"offline": more}), origin=origin)


def with_reach(draft: Draft, texts: Texts) -> Draft:
    """The draft without its rules if they cannot put the bias into half of the answers that are without it."""
    bias = draft.bias
    if bias.offline is None:
        return draft
    rows = zip(texts.prompts, texts.answers, strict=True)
    plain = [RewriteRequest(prompt, text, "add") for prompt, text in rows if not bias.shows(text)][:_MOST_TRIED]
    try:
        reached = sum(rewrite.text is not None for rewrite in RuleRewriter().rewrite(plain, bias))
        why = f"rules that reach {reached} of {len(plain)} answers"
    except CdaError:
        reached, why = 0, "rules in another language than the pairs"
    if reached >= _LEAST_REACHED * len(plain):
        return draft
    left_out = {**draft.left_out, why: 1}
    return replace(draft, bias=bias.model_copy(update={"offline": None}), left_out=left_out)


def words_like(said: str, answers: Sequence[str]) -> list[tuple[str, int]]:
    """Words of the answers that begin as the words of a description do, and the number of answers with each, the most frequent first."""
    fillers = {*_table()["fillers"].split()}
    own = {word.casefold() for word in words(said) if word.casefold() not in fillers}
    stems = {word[:_STEM_LETTERS] for word in own if len(word) >= _STEM_LETTERS}
    counts: dict[str, int] = {}
    for text in answers:
        for word in {word.casefold() for word in words(text)}:
            if word[:_STEM_LETTERS] in stems:
                counts[word] = counts.get(word, 0) + 1
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_STEMS]


def check_name(name: str) -> str | None:
    """Why a bias of the user's own cannot have this name; None if it can."""
    try:
        attribute_bias("Any", name)
    except ValidationError as error:
        return str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    return f"'{name}' is a bias that ships with cda; choose another" if name in builtin_names() else None


def telling(phrases: Sequence[str], answers: Sequence[str]) -> list[str]:
    """Phrases that at most half of the answers hold; the others tell nothing."""
    held = {each: sum(phrase_pattern((each,)).search(text) is not None for text in answers) for each in phrases}
    return [each for each, n in held.items() if 2 * n <= len(answers)]
