"""Queries for audits out of logs of real conversations: single, clean questions, every dropped row counted by reason.

The kinds of filter are those with which Chatbot Arena's prompts are usually made into audit sets ("Flattery, Fluff, and
Fog" audits on such a set): one English sentence that asks, inoffensive and well formed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cda.data.language import STOP_WORDS, language_of, script_shares
from cda.data.load import Row
from cda.data.messages import RowError
from cda.errors import DataError
from cda.features import n_words, sentences
from cda.records import Exclusions, count_reasons

# Where data sets keep the user's message; the first that a row has is taken.
COLUMNS = ("prompt", "query", "question", "instruction", "conversation", "conversation_a", "conversations", "messages")
_QUESTION_WORDS = frozenset(
    {"what", "why", "how", "when", "where", "who", "whom", "whose", "which", "is", "are", "was", "were", "am", "do", "does",
     "did", "can", "could", "will", "would", "shall", "should", "may", "might", "must", "has", "have", "had"}
)  # fmt: skip
_ENGLISH = frozenset({"english", "en", "eng"})
_CODE = re.compile(
    r"```|`[^`]+`|https?://|www\.|(?<![\w.-])[\w.-]+\.(?:com|org|net|io)\b|[{}<>\\|]|\w\(\)|==|!=|;$|\b\w+_\w+\b|\$\w"
)
_PLACEHOLDER = re.compile(r"\bNAME_\d+\b|\[[A-Za-z][^\]]{0,200}\]")
_ABBREVIATION = re.compile(r"\b(?:[A-Za-z]\.){2,}|\b(?:Dr|Mr|Mrs|Ms|St|vs|etc|No|approx)\.")
_MIN_LATIN = 0.95
_MOST_CHARACTERS = 5000  # the patterns take the square of the length, and no single question is so long
# Stems, matched at the beginning of a word: sex, violence, drugs, slurs and swearing that audits can do without.
OFFENSIVE = (
    "anal", "arsehol", "asshol", "bastard", "bitch", "blowjob", "bomb", "boob", "bullshit", "cocaine", "cock", "crap", "cum",
    "cunt", "dick", "dildo", "erotic", "fag", "fetish", "fuck", "genocid", "hentai", "heroin", "incest", "jerk off", "kill",
    "masturbat", "meth", "molest", "murder", "naked", "nazi", "nigg", "nsfw", "nude", "orgasm", "pedo", "penis", "piss",
    "porn", "pussy", "rape", "rapist", "retard", "sex", "shit", "slut", "suicid", "terroris", "tits", "tortur", "tranny",
    "vagina", "whore",
)  # fmt: skip
# Harmless words that begin like one of the stems.
_HARMLESS = re.compile(
    r"\b(?:anal(?:y|og|ges)\w*|bombay|cock(?:tail|pit|roach|atoo)\w*|cum(?:ul\w*|in)|dickens\w*|heroines?|meth[oay]\w*|"
    r"ped(?:om|og)\w*|rapeseed|retardants?|sext[aeo]\w*)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class QueryRules:
    """What a query must be.

    Attributes:
        min_words: Fewest words.
        max_words: Most words.
        offensive: Stems no word may begin with.
    """

    min_words: int = 5
    max_words: int = 40
    offensive: Collection[str] = OFFENSIVE


@dataclass(frozen=True, slots=True)
class CleanQueries:
    """The queries in row order, and what was dropped, by reason."""

    queries: tuple[str, ...]
    exclusions: Exclusions


def clean_queries(
    rows: Sequence[Row], where: str, column: str | None = None, rules: QueryRules | None = None
) -> CleanQueries:
    """Take the first user message of each row and keep those that are one clean English question.

    Args:
        rows: Loaded rows: text or messages under one of `COLUMNS`; `language`, where there is one, is believed.
        where: File named in errors.
        column: The column to take.
        rules: What a query must be; None for the defaults.

    Raises:
        DataError: No such column, or no usable query.
    """
    rules = rules or QueryRules()
    present = {key for row in rows for key in row}
    name = column or next((one for one in COLUMNS if one in present), None)
    if name is None or name not in present:
        wanted = f"column '{column}'" if column else f"column of queries ({', '.join(COLUMNS)})"
        raise DataError(f"{where}: no {wanted}. Found: {', '.join(sorted(present))}")
    offensive = _stem_pattern(rules.offensive)
    kept: dict[str, str] = {}
    reasons: list[str] = []
    for row in rows:
        try:
            query = _first_user_turn(row.get(name))
            language = str(row.get("language") or "english").strip().lower()
            if reason := _not_english_by(language) or why_not(query, rules, offensive):
                raise RowError(reason)
            if _key(query) in kept:
                raise RowError("duplicate")
        except RowError as problem:
            reasons.append(str(problem))
            continue
        kept[_key(query)] = query
    exclusions = Exclusions(len(rows), count_reasons(reasons))
    if not kept:
        raise DataError(f"{where}: no usable query; {exclusions}")
    return CleanQueries(tuple(kept.values()), exclusions)


def why_not(query: str, rules: QueryRules, offensive: re.Pattern[str] | None = None) -> str | None:
    """The first reason why a text is not a clean English question; None where it is one.

    >>> why_not("How do vaccines train the immune system?", QueryRules()) is None
    True
    >>> why_not("Tell me a joke about parrots, please.", QueryRules())
    'no question mark at the end'
    """
    if len(query) > _MOST_CHARACTERS:
        return f"longer than {_MOST_CHARACTERS:,} characters"
    if _PLACEHOLDER.search(query):
        return "placeholder"
    if _CODE.search(query):
        return "code or address"
    if not query.endswith("?"):
        return "no question mark at the end"
    if "\n" in query or len(sentences(_ABBREVIATION.sub("A", query))) != 1 or query.count("?") > 1:
        return "more than one sentence"
    if n_words(query) < rules.min_words:
        return f"fewer than {rules.min_words} words"
    if n_words(query) > rules.max_words:
        return f"more than {rules.max_words} words"
    if not is_english(query):
        return "not English"
    if (offensive or _stem_pattern(rules.offensive)).search(_HARMLESS.sub("", query)):
        return "offensive word"
    return None if _well_formed(query) else "not well formed"


def is_english(query: str) -> bool:
    """Whether a short text reads as English: Latin letters, an English stop word, and no other language ahead."""
    words = {word.strip("\"'“”‘’(),.?!:;").lower() for word in query.split()}
    latin = script_shares(query).get("LATIN", 0.0)
    return latin >= _MIN_LATIN and bool(words & STOP_WORDS["en"]) and language_of(query) in ("en", None)


def _well_formed(query: str) -> bool:
    """Opens with a capital, a digit or a question word, is not shouted, and closes what it opens."""
    first = query.split()[0]
    opens = first.lstrip("\"'“‘(")[:1]
    letters = [one for one in query if one.isalpha()]
    shouted = sum(one.isupper() for one in letters) > len(letters) / 2
    closed = query.count("(") == query.count(")") and query.count('"') % 2 == 0
    return (
        (opens.isupper() or opens.isdigit() or first.strip(",").lower() in _QUESTION_WORDS) and closed and not shouted
    )


def _first_user_turn(value: object) -> str:
    """A text, or the first user turn of messages in either common naming.

    Raises:
        RowError: Neither, or empty.
    """
    if isinstance(value, list | tuple):
        turns = [turn for turn in value if isinstance(turn, Mapping)]
        said = [
            turn.get("content", turn.get("value"))
            for turn in turns
            if turn.get("role", turn.get("from")) in ("user", "human")
        ]
        value = said[0] if said else None
    if not isinstance(value, str) or not value.strip():
        raise RowError("no user message")
    return value.strip()


def _not_english_by(language: str) -> str | None:
    return None if language in _ENGLISH else "not English"


def _stem_pattern(stems: Collection[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(stems)))})" if stems else r"(?!)", re.IGNORECASE)


def _key(query: str) -> str:
    return " ".join(re.findall(r"\w+", query.lower()))
