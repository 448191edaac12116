"""Misplaced keys: in a server's address, or in place of the name of the variable that should hold one."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_KNOWN = re.compile(
    r"(?:sk|pk|rk|gsk|xai|hf|ghp|gho|glpat|r8|nvapi|pplx|fw|tgp|csk|AIza|eyJ|AKIA|ya29)[-_.A-Za-z0-9]{16,}\Z|Bearer[\s_-]"
)
_IN_TEXT = re.compile(
    r"\b(?:(?:sk|pk|rk|gsk|xai|hf|gh[po]|glpat|r8|nvapi|pplx|fw|tgp|csk)[-_]|AIza|eyJ|AKIA|ya29|Bearer\s+)"
    r"(?=[^\s'\"]*[0-9*])[-_.*A-Za-z0-9]{8,}"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_WORD = r"(?:(?:[A-Z]?[a-z]{1,15}|[A-Z]{1,15})\d{0,2}|\d{1,4})"
_WORDS = re.compile(rf"{_WORD}(?:_{_WORD})+\Z")  # words and years, as in `my_openai_key_2024`; no key is made of them
_LONG = 20
_VERSION = re.compile(r"api-version=(?:\d{4}-\d{2}-\d{2}(?:-preview)?|preview|latest|v1)")


def looks_like_key(word: str) -> bool:
    """True if a word is a key of a known kind, or a long mix of small letters and digits, unlike a variable's name.

    >>> looks_like_key("sk-proj-0123456789abcdef"), looks_like_key("3f2a" * 8), looks_like_key("MY_TEAM_OPENAI_API_KEY_2")
    (True, True, False)
    """
    if _WORDS.match(word):
        return False
    if _KNOWN.match(word):
        return True
    digits, small = sum(char.isdigit() for char in word), sum(char.islower() for char in word)
    return len(word) >= _LONG and not re.search(r"\s", word) and digits >= 3 and small >= 3


def without_keys(text: str) -> str:
    """A text of another's to be shown, without words that look like keys, whole or shortened.

    >>> without_keys("Incorrect API key provided: sk-proj-****9a2b. See the docs")
    'Incorrect API key provided: *** See the docs'
    """
    return _IN_TEXT.sub("***", text)


def variable_problem(name: str) -> str | None:
    """Problem of a name of an environment variable that should hold a key, if there is one. Never repeats the name."""
    if _VARIABLE.match(name) and not looks_like_key(name):
        return None
    what = "what looks like a key itself" if looks_like_key(name) else "no name of an environment variable"
    return (
        f"holds {what}, which is not repeated here. Put the key into a variable (export OPENAI_API_KEY=…) and give the "
        "variable's name; a key that stood in a file or a shell's history is best replaced"
    )


def address_problem(url: str, with_version: bool = False) -> str | None:
    """Problem of a server's address that may hold a key, if there is one. Never repeats that part. `with_version`: its query may be
    Azure's `api-version=DATE`.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets that hold no IPv6 address, said elsewhere
        return None
    if "@" in parts.netloc:
        where = "a user name or password"
    elif parts.fragment or (parts.query and not (with_version and _VERSION.fullmatch(parts.query))):
        other = " other than api-version=DATE" if with_version else ""
        where = f"a query (from '?' or '#' on){other}"
    elif any(_KNOWN.match(part) for part in parts.path.split("/")):
        where = "a part that looks like a key"
    else:
        return None
    return (
        f"holds {where}, which is not repeated here, since addresses are logged and written into run folders. Leave it out, and "
        "put a key into the environment variable of the setting api_key_env"
    )
