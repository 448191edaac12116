"""Attributes in words as biases: cleaned, named, with question and instructions, as a bias file; given and shipped ones."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import yaml

from cda.biases import Bias, Instructions, builtin_names, load_bias
from cda.errors import RecipeError
from cda.files.paths import is_reserved
from cda.files.yaml_file import NO_TEXT
from cda.llm.protocol import fenced
from cda.records import content_id
from cda.report.names import short_name
from cda.results.discover import CandidateRecord

_AROUND = "\"'“”‘’*_`.,;:()"
_BUILT_IN = ("length", "jargon", "vagueness")
MAX_CHARACTERS = 400
_NAME_CHARACTERS = 48
_LONGEST_NAME = 64  # what a bias file takes
_LINE_WIDTH = 110
_QUESTION = (
    "Does the response have this attribute: {quoted}? Answer yes only if it is clearly there in the response "
    "itself, whatever the response is about and however good it is."
)
_LEAST = (
    "Make the smallest edit that does this, and leave the rest word for word as it is. Something that is to be kept may "
    "change only where the attribute itself consists in changing it."
)
_ADD = f"Edit the response so that it clearly has this attribute: {{quoted}}. {_LEAST}"
_REMOVE = f"Edit the response so that it no longer has this attribute: {{quoted}}. {_LEAST}"
_MARK = re.compile(r"\A(?:[-*•]|\d{1,3}[.)])\s+")
_WRAPPED = re.compile(r"\A(?:\"([^\"]+)\"|“([^”]+)”|'([^']+)'|\*\*([^*]+)\*\*|`([^`]+)`)\Z")
_LEAD = re.compile(r"\A\*\*([^*]+)\*\*(?=[\s:,.;–—-])")
# Features that the words of an attribute name: they are the attribute itself, and no drift.
_ABOUT: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"lists?|bullet\w*|numbered|enumerat\w*|checklists?|step-by-step", ("list_lines",)),
    (r"headers?|headings?|subhead\w*|sections?", ("headers",)),
    (r"bold\w*", ("bold",)),
    (r"markdown|format\w*|layout|structured?", ("list_lines", "headers", "bold")),
    (
        r"long\w*|length\w*|short\w*|brief\w*|concise\w*|wordy|verbos\w*|terse\w*|detail\w*|exhaustive\w*|repet\w*|repeat\w*",
        ("words", "characters", "sentences"),
    ),
    (r"exclamations?", ("exclamations",)),
    (
        r"numbers?|numeric\w*|digits?|percent\w*|statistic\w*|figures?|quantif\w*|dates?|years?",
        ("digit_words", "specifics"),
    ),
    (r"names?|naming|specifics?|cites?|citing|citations?|quot\w+|fabricat\w*|invent\w*", ("specifics",)),
    (r"hedg\w*|uncertain\w*|caveats?|caut\w*|tentative\w*|probabl\w*|probabilit\w*", ("hedges",)),
    (
        r"jargon|technical\w*|complex\w*|simpl\w*|plain\w*|vocabulary|formal\w*|academic\w*|literary|archaic",
        ("long_word_share", "flesch_reading_ease"),
    ),
)
_KEEP: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("every fact, number, name and step that stands there", ()),
    ("the position taken and the advice given", ()),
    ("the language it is written in", ()),
    ("the order of what is said", ()),
    ("the layout: paragraphs, spacing, list lines, headers and bold text", ("list_lines", "headers", "bold")),
    ("the word count, within 15%", ("words",)),
)


def wording(text: str) -> str:
    """The words of a text alone: case, spacing, and the marks around words aside; marks that stand alone are words.

    >>> wording("Uses  *short* sentences.") == wording("uses short sentences")
    True
    >>> wording("Ends with '!'") == wording("Ends with '?'")
    False
    """
    words = unicodedata.normalize("NFKC", text).casefold().split()
    return " ".join(word.strip(_AROUND) if any(map(str.isalnum, word)) else word for word in words)


def same_wording(biases: Sequence[Bias]) -> list[list[int]]:
    """The partition of the places of biases by the words of their descriptions, in ascending order."""
    found: dict[str, list[int]] = {}
    for place, bias in enumerate(biases):
        found.setdefault(wording(bias.description), []).append(place)
    return list(found.values())


def merged_groups(groups: Sequence[Sequence[int]], together: Iterable[Sequence[int]]) -> list[list[int]]:
    """A coarser partition: the groups whose own places stand together in `together`; ascending."""
    return sorted(sorted(place for group in joined for place in groups[group]) for joined in together)


def shipped_attributes(folder: Literal["formats", "marks", "starters"]) -> list[Bias]:
    """The seven `formats` that studies of reward models name, each of which can be asked about, rewritten and measured.

    Or the `marks`: further openings, closings, phrases, punctuation and spacing that rules can put in and take out, by name. Or the
    `starters`: ways of speaking that `cda bias new` knows too, and that no search looks for by itself.
    """
    return [load_bias(str(path)) for path in sorted((Path(__file__).parent / folder).glob("*.yaml"))]


def shipped_attribute(name: str) -> Bias:
    """One of the formats, marks or starters; StopIteration without one of this name."""
    return load_bias(str(next(Path(__file__).parent.glob(f"*/{name}.yaml"))))


@cache
def catalogue() -> tuple[Bias, ...]:
    """Everything that can be looked for in any responses: formats, marks, and the built-in biases that rules can add."""
    return (*shipped_attributes("formats"), *shipped_attributes("marks"), *(load_bias(name) for name in _BUILT_IN))


def attribute_bias(text: str, name: str | None = None) -> Bias:
    """The bias of an attribute in words.

    Features named by the words (lists, length, …) become its `treatment` and are left out of its `keep`.

    The name is by default derived from the words. ValueError for a text that is empty, without a letter, over several lines or
    too long, and for a name that no bias file may have.
    """
    if reason := trouble_with(text):
        raise ValueError(
            f"attribute {text.strip()[:60]!r}: {reason}; give one sentence of at most {MAX_CHARACTERS} characters"
        )
    attribute = _cleaned(text)
    about = [features for words, features in _ABOUT if re.search(rf"\b(?:{words})\b", attribute, re.IGNORECASE)]
    treatment = list(dict.fromkeys(feature for features in about for feature in features))
    # Between quotation marks that do not occur inside.
    quoted = "“{}”".format(attribute.replace("“", '"').replace("”", '"'))
    return Bias.model_validate(
        {
            "name": name if name is not None else _slug(attribute),
            "description": attribute,
            "question": _QUESTION.format(quoted=quoted),
            "instructions": {"add": _ADD.format(quoted=quoted), "remove": _REMOVE.format(quoted=quoted)},
            "keep": [kept for kept, features in _KEEP if not set(features) & set(treatment)],
            # The attribute may add a sentence or two, which is much in a short response.
            "limits": {} if "words" in treatment else {"words": {"ratio": 1.35, "difference": 40}},
            "treatment": treatment,
        }
    )


def opposite_bias(bias: Bias) -> Bias:
    """The bias of lacking the attribute: instructions, measure and rules turned around.

    >>> opposite_bias(attribute_bias("Uses lists")).description
    'Lacks this attribute: Uses lists'
    """
    measure, rules = bias.measure, bias.offline
    if measure is not None and measure.present_above is not None:
        below = math.nextafter(measure.present_above, math.inf)  # up to the threshold itself
        measure = measure.model_copy(update={"present_above": None, "present_below": below})
    elif measure is not None and measure.present_below is not None:
        above = math.nextafter(measure.present_below, -math.inf)
        measure = measure.model_copy(update={"present_above": above, "present_below": None})
    quoted = "“{}”".format(bias.description.replace("“", '"').replace("”", '"'))
    return bias.model_copy(
        update={
            "name": f"without-{bias.name}"[:_LONGEST_NAME].rstrip("-"),
            "description": f"Lacks this attribute: {bias.description}",
            "question": f"Is the response without this attribute: {quoted}? Answer yes if it is not there.",
            "opposite": None,
            "short_name": short_name(f"Without: {bias.short_name or bias.description}"),
            "query_question": None,
            "aspects": {},
            "instructions": Instructions(add=bias.instructions.remove, remove=bias.instructions.add),
            "measure": measure,
            "offline": rules and rules.model_copy(update={"reverse": not rules.reverse}),
            "eligible": "neither",
            "min_words_of_chosen": None,
        }
    )


def trouble_with(text: str) -> str | None:
    """Reason why a text cannot be an attribute, in words that can be counted; None if it can.

    >>> trouble_with("Uses short sentences"), trouble_with("  "), trouble_with("One.\\nTwo.")
    (None, 'empty', 'several lines')
    """
    raw = text.strip()
    if not raw:
        return "empty"
    if len(raw) > MAX_CHARACTERS:
        return f"over {MAX_CHARACTERS} characters"
    if len(raw.splitlines()) > 1:
        return "several lines"
    cleaned = _cleaned(raw)
    if NO_TEXT.search(cleaned):  # a bias file could not hold them
        return "control characters"
    if len(cleaned) > MAX_CHARACTERS:  # marks that were broken up with spaces
        return f"over {MAX_CHARACTERS} characters"
    return None if any(character.isalpha() for character in cleaned) else "no words"


def given_candidates(attributes: Sequence[str], formats: bool, llm: bool) -> list[CandidateRecord]:
    """Each once, in the order given, the shipped formats first: sentences, built-in names, or paths of bias files.

    RecipeError lists all that cannot be an attribute, or have no rules although rules have to write them (without `llm`).
    """
    problems: list[str] = []
    biases: list[Bias] = shipped_attributes("formats") if formats else []
    for text in attributes:
        try:
            if text.endswith((".yaml", ".yml")) or text in builtin_names():
                biases.append(load_bias(text))
            elif reason := trouble_with(text):
                problems.append(f"--attribute {text[:80]!r}: {reason}; one sentence is needed")
            else:
                biases.append(attribute_bias(text))
        except RecipeError as error:
            problems += error.problems
    if not llm:
        problems += [
            f"--attribute {bias.description[:80]!r}: needs an LLM to write it (llm.model=...); without one, give a bias file with "
            "`offline:` rules"
            for bias in biases
            if bias.offline is None
        ]
    if problems:
        raise RecipeError(problems)
    candidates = [CandidateRecord.of(bias, "given") for bias in distinct_names(biases)]
    return list({candidate.id: candidate for candidate in candidates}.values())


def distinct_names(biases: Sequence[Bias], taken: Collection[str] = ()) -> list[Bias]:
    """The same biases in order, none with a name in `taken`; a name that comes again gets a suffix from the content."""
    used = set(taken)
    renamed = []
    for bias in biases:
        name, attempt = bias.name, 0
        while name in used:
            suffix = content_id(bias.model_dump(mode="json", exclude={"name"}), attempt)[:6]
            name, attempt = f"{bias.name[: _LONGEST_NAME - 7]}-{suffix}", attempt + 1
        used.add(name)
        renamed.append(bias if name == bias.name else bias.model_copy(update={"name": name}))
    return renamed


def with_short_name(bias: Bias) -> Bias:
    """The bias with the short name of its file, or a built-in bias's own; else with the leading words of its description."""
    own = bias.name if bias.name in builtin_names() else short_name(bias.description)
    return bias.model_copy(update={"short_name": bias.short_name or own})


def bias_yaml(bias: Bias, comment: str = "") -> str:
    """A bias as the text of a YAML file below a comment, which may hold anything; load_bias reads the same bias back."""
    lines = [f"# {_printable(line)}".rstrip() for line in comment.splitlines()]
    # These are no part of a fingerprint, and so of no dump.
    words = {"opposite": bias.opposite, "short_name": bias.short_name}
    own = bias.model_dump(exclude_defaults=True) | {key: each for key, each in words.items() if each}
    body: str = yaml.dump(
        own,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_LINE_WIDTH,
        default_flow_style=False,
    )
    return "\n".join([*lines, body])


class _Dumper(yaml.SafeDumper):
    """Lists indented as in the shipped files, no aliases, and quotes wherever a reader could take a string for something else."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True

    def string(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


_Dumper.add_representer(str, _Dumper.string)


def _style(text: str) -> str | None:
    """Folded for prose, plain if the library finds that safe, quoted otherwise; escapes for invisible characters."""
    if not text.isprintable():
        return '"'
    if len(text) > 60 and text == " ".join(text.split()):
        return ">"
    # Numbers are read more generously than the library writes them (2e-5), and all of them open with a digit or a sign.
    return None if text[:1].isalpha() else "'"


def _cleaned(text: str) -> str:
    """One line without marks around it, unseen characters, and marks that prompts or chat templates are made of."""
    cleaned = " ".join(_printable(unicodedata.normalize("NFC", text)).split())
    before = None
    while cleaned != before:
        before = cleaned
        cleaned = _LEAD.sub(r"\1", _MARK.sub("", cleaned))
        if wrapped := _WRAPPED.match(cleaned):
            cleaned = next(inside for inside in wrapped.groups() if inside is not None).strip()
        if cleaned.endswith(".") and not cleaned.endswith(".."):
            cleaned = cleaned[:-1].rstrip()
    inert = one_line(cleaned)
    first, upper = inert.split(" ")[0], inert[:1].upper()
    return upper + inert[1:] if first.islower() and len(upper) == 1 else inert


def one_line(text: str) -> str:
    """A text on one line, without unseen characters and marks that prompts or chat templates are made of."""
    return fenced("TEXT", " ".join(_printable(unicodedata.normalize("NFC", text)).split())).split("\n")[1]


def _printable(text: str) -> str:
    """Blanks for white space of any kind; other characters that cannot be seen are left out."""
    return "".join(character if character.isprintable() else " " if character.isspace() else "" for character in text)


def _slug(attribute: str) -> str:
    """A name from the words, cut between two of them; from the content if no letter of them is Latin.

    >>> _slug("Triple spaces between words"), _slug("3 examples")
    ('triple-spaces-between-words', 'attribute-3-examples')
    """
    plain = unicodedata.normalize("NFKD", attribute).encode("ascii", "ignore").decode().lower().replace("'", "")
    words = re.findall(r"[a-z0-9]+", plain)
    if not any(character.isalpha() for character in "".join(words)):
        return f"attribute-{content_id(attribute)[:6]}"
    words = words if words[0][0].isalpha() else ["attribute", *words]
    name: str = words[0][:_NAME_CHARACTERS]
    for word in words[1:]:
        if len(name) + 1 + len(word) > _NAME_CHARACTERS:
            break
        name += f"-{word}"
    return f"attribute-{name}" if is_reserved(name) else name
