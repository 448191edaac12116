"""Models and data as a reader of a page calls them: no key, no file name of code, no path."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel

from cda.biases import SHORT_NAME
from cda.report.numbers import inert, listed

T = TypeVar("T")

_OWN = re.compile(r"(?:.*[/\\])?(?:[\w.-]+\.py[:-]|[\w.]+:|(?<=function/)[\w.]+-)(?P<function>[^\W\d]\w*)\Z")
_GIVEN = re.compile(r"(?:^|[/\\])(\w+)-[0-9a-f]{16}\.jsonl\Z")
"""Rows in memory, which have a file named after their content (`cda.jobs.terms.as_reference`)."""


_SUBJECT = re.compile(r"\A(?:(?:the|a|an|this) )?(?:responses?|answers?|texts?) (?:that |which )?", re.IGNORECASE)
_LEADS_ON = re.compile(
    r"(?:[\s,;:–—-]+(?:an?|the|of|to|in|on|at|by|for|from|with|without|and|or|but|as|that|which|who|than|then|when|where|while|if|before|after|into|about|like|such|its?|their|is|are|be|not|rather|instead|even|e\.g\.))*[\s,;:(–—-]*\Z", re.IGNORECASE
)  # fmt: skip
"""Words at an end that need what is left out."""
_CLAUSE = re.compile(r".{10,}(?=[,;:(–—])")
_OF_BIAS = ("contrasts of", "votes on", "triples of")


def _several(word: str) -> Callable[[str], str]:
    """Names behind a word, such as `the judges a and b`."""

    def said(bare: str) -> str:
        names = [_last(each.strip()) for each in bare.split(",") if each.strip()]
        return f"the {word}{'s' if len(names) > 1 else ''} {listed(names)}" if names else f"the {word}"

    return said


def _ratio(bare: str) -> str:
    policy, _, reference = bare.partition(",")
    return f"the log-ratio of {_last(policy)}{f' to {_last(reference)}' if reference else ''}"


def _served(bare: str) -> str:
    return f"the model served at {urlsplit(bare if '//' in bare else f'//{bare}').netloc or bare}"


_KINDS: dict[str, Callable[[str], str]] = {
    "judge": _several("judge"), "grade": _several("grader"), "dpo": _ratio, "served": _served,
    "scores": lambda bare: f"the score file {data_called(bare)}",
}  # fmt: skip


def called(name: str) -> str:
    """A scorer in words.

    >>> called("memory:score"), called("mine.py:reward"), called("judge:a,org/b"), called("/x/models/rm"), called("org/m")
    ('the Python function ‘score’', 'the Python function ‘reward’', 'the judges a and org/b', 'rm', 'org/m')
    """
    text = inert(name)
    if text == "embedded":
        return "the embedded model"
    kind, separator, bare = re.match(r"(\w*)([:/]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]  # always matches
    if text.startswith(("http://", "https://")):
        return _served(text)
    if separator and bare and kind in _KINDS:
        return _KINDS[kind](bare)
    function, _ = function_of(text)
    return f"the Python function ‘{function}’" if function else _last(text)


def function_of(name: str) -> tuple[str, str]:
    """The name of a function and that of its file or module; both empty of another scorer.

    >>> function_of("mine.py:reward"), function_of("memory:score"), function_of("org/m")
    (('reward', 'mine.py'), ('score', 'memory'), ('', ''))
    """
    text = inert(name)
    if text.startswith(("memory:", "memory/")):
        return text[len("memory:") :], "memory"
    own = None if text.partition(":")[0] in _KINDS or text.startswith(("http:", "https:")) else _OWN.match(text)
    return (own["function"], text[: own.start("function") - 1]) if own else ("", "")


def data_called(name: str) -> str:
    """A file of rows in words: without folders and ending.

    >>> data_called("runs/pairs.jsonl"), data_called("org/set"), data_called("embedded"), data_called("pairs-24a70cc7413729a4.jsonl")
    ('‘pairs’', 'org/set', 'the embedded texts', 'the given pairs')
    """
    text = inert(name)
    bare = re.sub(r"\.(?:jsonl?|csv|parquet|tsv|txt)(?:\.gz)?\Z", "", text)
    if given := _GIVEN.search(text):
        return f"the given {given[1]}"
    return "the embedded texts" if text == "embedded" else _last(text) if bare == text else f"‘{_last('/' + bare)}’"


def _last(path: str) -> str:
    """The end of a path; ids of a hub, of at most two parts, stay whole."""
    parts = [part for part in re.split(r"[/\\]", path) if part]
    is_path = path.startswith(("/", "~", ".")) or len(parts) > 2
    return parts[-1] if is_path and parts else path


def capital(sentence: str) -> str:
    """A sentence with a capital where it opens with an article; names keep their case.

    >>> capital("the judge a is right"), capital("org/m is")
    ('The judge a is right', 'org/m is')
    """
    return f"T{sentence[1:]}" if sentence.startswith("the ") else sentence


def brief(words: str) -> str:
    """A scorer in words, without the words for its kind, for a key or a heading.

    >>> brief("the Python function ‘reward’"), brief("the judge a"), brief("org/m")
    ('function ‘reward’', 'judge a', 'org/m')
    """
    return words.replace("the Python ", "").removeprefix("the ")


def short_name(words: str) -> str:
    """The leading words of a description, at most `SHORT_NAME` characters: without its subject, and words that lead on to what is left out.

    >>> short_name("The response opens with praise of the user before it answers"), short_name("Uses lists.")
    ('Opens with praise of the user', 'Uses lists')
    """
    whole = _SUBJECT.sub("", inert(words)).split(". ")[0].strip().rstrip(".") or inert(words)
    first = (textwrap.wrap(whole, SHORT_NAME) or ["?"])[0]
    if first != whole:
        first = _LEADS_ON.sub("", (_CLAUSE.match(first) or [first])[0]) or first
    return first[0].upper() + first[1:]


def distinct(names: Mapping[str, str]) -> dict[str, str]:
    """Short names, no two the same: those that come again have a number.

    >>> distinct({"a": "praise", "b": "praise"})
    {'a': 'praise', 'b': 'praise (2)'}
    """
    found: dict[str, str] = {}
    for name, short in names.items():
        numbered = (f"{short} ({at})" for at in range(2, len(names) + 2))
        found[name] = next(each for each in (short, *numbered) if each not in found.values())
    return found


def renamed(value: T, names: Mapping[str, str]) -> T:
    """A result with other names of biases, wherever one stands by itself or behind `contrasts of` and the like."""
    found: Any = value
    if isinstance(value, str):
        of, _, name = value.rpartition(" ")
        found = f"{of} {names[name]}" if of in _OF_BIAS and name in names else names.get(value, value)
    elif isinstance(value, BaseModel):
        found = value.model_copy(update={key: renamed(getattr(value, key), names) for key in type(value).model_fields})
    elif isinstance(value, Mapping):
        found = {renamed(name, names): renamed(each, names) for name, each in value.items()}
    elif isinstance(value, tuple):
        found = tuple(renamed(each, names) for each in value)
    return found  # type: ignore[no-any-return]


def scored_by(text: str) -> str:
    """A sentence on how texts were scored, with the scorer in words.

    >>> scored_by("Scored by memory:score; 2 of 9 texts cut")
    'Scored by the Python function ‘score’; 2 of 9 texts cut'
    """
    return re.sub(r"(?<=Scored by )[^\s;,]+", lambda found: called(found[0]), text)


def without_files(text: str) -> str:
    """A sentence with files of rows called by their names alone.

    >>> without_files("by rules, runs/a/triples.jsonl.")
    'by rules, ‘triples’.'
    """
    return re.sub(r"[\w./\\~:-]+\.(?:jsonl?|csv|parquet|tsv)\b", lambda found: data_called(found[0]), text)


def apart(names: Sequence[str]) -> dict[str, str]:
    """Paths by the parts that not all of them have.

    >>> apart(["runs/a/found", "runs/b/found"])
    {'runs/a/found': 'a', 'runs/b/found': 'b'}
    """
    parts = {name: re.split(r"[/\\]", name) for name in names}
    common = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set[str]()
    own = {name: " ".join(part for part in each if part not in common) for name, each in parts.items()}
    return {
        name: inert(own[name] if all(own.values()) and len(set(own.values())) == len(own) else name) for name in names
    }


def some(names: Sequence[str], what: str = "biases", most: int = 4) -> str:
    """Names in a headline: all of them, or of more than `most` their number.

    >>> some(["a", "b"]), some(list("abcde"))
    ('a and b', '5 biases')
    """
    return listed(list(map(inert, names))) if len(names) <= most else f"{len(names)} {what}"
