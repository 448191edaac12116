"""Models and data as a reader of a page calls them: no key, no file name of code, no path."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from cda.report.numbers import inert, listed

_OWN = re.compile(r"(?:.*[/\\])?(?:[\w.-]+\.py[:-]|[\w.]+:|(?<=function/)[\w.]+-)(?P<function>[^\W\d]\w*)\Z")
_GIVEN = re.compile(r"(?:^|[/\\])(\w+)-[0-9a-f]{16}\.jsonl\Z")
"""Rows in memory, which have a file named after their content (`cda.jobs.terms.as_reference`)."""


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
    if text.startswith(("memory:", "memory/")):
        return f"the Python function ‘{text[len('memory:') :]}’"
    own = _OWN.match(text)
    return f"the Python function ‘{own['function']}’" if own else _last(text)


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
