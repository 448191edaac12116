"""Queries for audits out of logs of real conversations: single, clean questions, every dropped row counted by reason.

The kinds of filter are those with which Chatbot Arena's prompts are usually made into audit sets ("Flattery, Fluff, and
Fog" audits on such a set): one English sentence that asks, inoffensive and well formed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from cda.data.load import Row, RowError, readable
from cda.errors import DataError
from cda.features import n_words, sentences_of
from cda.languages import STOP_WORDS, is_english
from cda.records import Exclusions, count_reasons

# Columns in which data sets keep the user's message; the first one in a row is used.
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
_MIN_WORDS, _MAX_WORDS = 5, 40
_MOST_CHARACTERS = 5000  # the patterns take the square of the length, and no single question is so long
# Stems, matched at the beginning of a word: sex, violence, drugs, slurs and swearing that audits can do without.
_OFFENSIVE = (
    "anal", "arsehol", "asshol", "bastard", "bitch", "blowjob", "bomb", "boob", "bullshit", "cocaine", "cock", "crap", "cum",
    "cunt", "dick", "dildo", "erotic", "fag", "fetish", "fuck", "genocid", "hentai", "heroin", "incest", "jerk off", "kill",
    "masturbat", "meth", "molest", "murder", "naked", "nazi", "nigg", "nsfw", "nude", "orgasm", "pedo", "penis", "piss",
    "porn", "pussy", "rape", "rapist", "retard", "sex", "shit", "slut", "suicid", "terroris", "tits", "tortur", "tranny",
    "vagina", "whore",
)  # fmt: skip
_OFFENSIVE_STEM = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(_OFFENSIVE)))})", re.IGNORECASE)
# Harmless words that begin like one of the stems.
_HARMLESS = re.compile(
    r"\b(?:anal(?:y|og|ges)\w*|bombay|cock(?:tail|pit|roach|atoo)\w*|cum(?:ul\w*|in)|dickens\w*|heroines?|meth[oay]\w*|"
    r"ped(?:om|og)\w*|rapeseed|retardants?|sext[aeo]\w*)\b",
    re.IGNORECASE,
)


def clean_queries(rows: Sequence[Row], where: str, column: str | None = None) -> tuple[tuple[str, ...], Exclusions]:
    """The first user message of each row (text or messages, under one of `COLUMNS`) that is one clean English question, in row order;
    and counts of dropped rows by reason.

    A column `language` is believed.

    Raises:
        DataError: No such column, or no usable query.
    """
    present = {key for row in rows for key in row}
    name = column or next((known for known in COLUMNS if known in present), None)
    if name is None or name not in present:
        wanted = f"column '{column}'" if column else f"column of queries ({', '.join(COLUMNS)})"
        raise DataError(f"{where}: no {wanted}. Found: {', '.join(sorted(present))}")
    kept: dict[str, str] = {}

    def read(row: Row) -> str:
        query = _first_user_turn(row.get(name))
        if str(row.get("language") or "english").strip().lower() not in _ENGLISH:
            raise RowError("not English")
        if reason := why_not(query):
            raise RowError(reason)
        return query

    numbered, unusable = readable(rows, read)
    for _, query in numbered:
        kept.setdefault(" ".join(re.findall(r"\w+", query.lower())), query)
    reasons = [reason for _, reason in unusable] + ["duplicate"] * (len(numbered) - len(kept))
    exclusions = Exclusions(len(rows), count_reasons(reasons))
    if not kept:
        raise DataError(f"{where}: no usable query; {exclusions}")
    return tuple(kept.values()), exclusions


def why_not(query: str) -> str | None:
    """The first reason why a text is not a clean English question; None if it is one.

    >>> why_not("How do vaccines train the immune system?") is None
    True
    >>> why_not("Tell me a joke about parrots, please.")
    'no question mark at the end'
    """
    if len(query) > _MOST_CHARACTERS:
        return f"longer than {_MOST_CHARACTERS:,} characters"
    return next((reason for reason, holds in _FILTERS if holds(query)), None)


def _is_several(query: str) -> bool:
    return "\n" in query or len(sentences_of(_ABBREVIATION.sub("A", query))) != 1 or query.count("?") > 1


def _is_english(query: str) -> bool:
    words = {word.strip("\"'“”‘’(),.?!:;").lower() for word in query.split()}
    return bool(words & STOP_WORDS["en"]) and is_english(query)


def _well_formed(query: str) -> bool:
    first = query.split()[0]
    opens = first.lstrip("\"'“‘(")[:1]
    letters = [letter for letter in query if letter.isalpha()]
    shouted = sum(map(str.isupper, letters)) > len(letters) / 2
    closed = query.count("(") == query.count(")") and query.count('"') % 2 == 0
    begins = opens.isupper() or opens.isdigit() or first.strip(",").lower() in _QUESTION_WORDS
    return begins and closed and not shouted


_FILTERS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("placeholder", _PLACEHOLDER.search),
    ("code or address", _CODE.search),
    ("no question mark at the end", lambda query: not query.endswith("?")),
    ("more than one sentence", _is_several),
    (f"fewer than {_MIN_WORDS} words", lambda query: n_words(query) < _MIN_WORDS),
    (f"more than {_MAX_WORDS} words", lambda query: n_words(query) > _MAX_WORDS),
    ("not English", lambda query: not _is_english(query)),
    ("offensive word", lambda query: _OFFENSIVE_STEM.search(_HARMLESS.sub("", query))),
    ("not well formed", lambda query: not _well_formed(query)),
)


def _first_user_turn(value: object) -> str:
    if isinstance(value, list | tuple):
        turns = [turn for turn in value if isinstance(turn, Mapping)]
        users = [turn for turn in turns if turn.get("role", turn.get("from")) in ("user", "human")]
        value = users[0].get("content", users[0].get("value")) if users else None
    if not isinstance(value, str) or not value.strip():
        raise RowError("no user message")
    return value.strip()
