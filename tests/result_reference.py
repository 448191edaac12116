"""The reference of result files: a page for each in `docs/results/`, and a JSON Schema for each, made from the types by `python tests/documents.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cda.numbers.measures import MEASURES
from cda.results.audit import AuditResult
from cda.results.base import Saved, public_name
from cda.results.benchmarks import BestOfResult, QualityResult
from cda.results.comparison import AuditRow, ComparisonResult
from cda.results.data import DataResult
from cda.results.discover import DiscoverResult, TopicsResult
from cda.results.dose import CalibrationResult, DoseResult
from cda.results.inspect import InspectResult
from cda.results.scored import ScoreResult
from cda.results.study import StudyResult

DOCS = Path(__file__).parent.parent / "docs"
KINDS: dict[str, tuple[type[Saved], str]] = {
    "audit": (AuditResult, "`audit/audit.json` of a run: `cda audit`, `cda train`, `cda.audit`, `run.audit`"),
    "quality": (QualityResult, "`quality.json`: `cda quality`, `cda.quality`"),
    "best_of": (BestOfResult, "`best_of_n.json`: `cda best-of`, `cda.best_of`"),
    "score": (ScoreResult, "`score.json`: `cda score`, `cda.score`"),
    "data": (DataResult, "`data.json`: `cda data`, `cda.audit_data`"),
    "dose": (
        DoseResult,
        "`dose/dose.json` of a training: `run.dose`; `dose.json` of `cda dose … --against …`, `cda.dose`",
    ),
    "calibration": (CalibrationResult, "`calibration.json`: `cda calibrate`, `cda.calibrate`"),
    "discover": (DiscoverResult, "`discover.json`: `cda discover`, `cda.discover`"),
    "comparison": (ComparisonResult, "`comparison.json`: `cda compare`, `cda.compare`"),
    "audit_row": (AuditRow, "a row to share: `--export` of `cda audit` and `cda compare`, `audit.export`"),
    "topics": (TopicsResult, "`topics.json`: `cda discover --by-topic`, `cda.discover(…, by_topic=True)`"),
    "study": (StudyResult, "`votes.summary.json`: `cda study import`"),
    "inspect": (InspectResult, "what `cda inspect --json` prints"),
}


def schema(kind: type[Saved]) -> dict[str, Any]:
    """The JSON Schema of what is written; fields that are only in memory are not in it."""
    found = kind.model_json_schema(mode="serialization")
    for name in kind.in_memory:
        found["properties"].pop(name, None)
    found["required"] = [name for name in found.get("required", []) if name not in kind.in_memory]
    used = _used(found)
    found["$defs"] = {name: part for name, part in found.get("$defs", {}).items() if name in used}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": public_name(kind)}


def _used(found: dict[str, Any]) -> set[str]:
    """Definitions that are reached from the properties."""
    reached: set[str] = set()
    left = [found["properties"]]
    while left:
        names = set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps(left.pop()))) - reached
        reached |= names
        left += [found["$defs"][name] for name in names]
    return reached


def files() -> dict[Path, str]:
    """Every file of the reference, as the types make it."""
    schemas = {name: schema(kind) for name, (kind, _) in KINDS.items()}
    made = {
        DOCS / "schemas" / f"{name}.json": json.dumps(found, indent=1, ensure_ascii=False) + "\n"
        for name, found in schemas.items()
    }
    pages = {page: "\n".join(lines) + "\n" for page, lines in _pages(schemas).items()}
    return {**{DOCS / "results" / f"{page}.md": text for page, text in pages.items()}, **made}


HEAD = """# What stands in a result

Every field of every result, as an attribute in Python and as a key in its file. A page for each command, and one for the
[parts that several have](parts.md). They and the JSON Schemas in [schemas/](../schemas/) are made from the types by
`python tests/documents.py`. A value that is not there is `Missing`, with its reason; intervals are 95%. What the numbers mean stands in
[reading a report](../../cda/report/README.md)."""

PARTS = "parts"
PARTS_HEAD = "# Parts that several results have"
MEASURES_HEAD = """The numbers of an audit that have one name everywhere: in conditions (`--fail-if 'jargon.skew>0.7'`), in
`audit.numbers.where("skew", "change", bias="jargon")` and `.pivot("bias", "moment")`, in frames, shared rows and comparisons, and,
under the name in the last column, in experiment trackers and model cards. Older names are read, with a warning."""


def page_of(kind: str) -> str:
    """Name of the page of a kind, without its ending."""
    return kind.replace("_", "-")


def _pages(schemas: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Lines of each page: the index, a page for each kind with the parts that it alone has, and the shared parts."""
    parts: dict[str, dict[str, Any]] = {}
    users: dict[str, list[str]] = {}
    for kind, found in schemas.items():
        for name, part in found["$defs"].items():
            if "properties" in part:
                parts[name] = part
                users.setdefault(name, []).append(page_of(kind))
    own = {_titled(name): kinds[0] if len(kinds) == 1 else PARTS for name, kinds in users.items()}
    pages = {"README": [HEAD, "", *_contents(schemas), "", *_measures()]}
    for kind, found in schemas.items():
        made = f"{KINDS[kind][1]}. {_text(found)}".strip()
        lines = [f"# {found['title']}", "", made, "", *_table(found, page_of(kind), own)]
        pages[page_of(kind)] = [*lines, *_parts(parts, page_of(kind), own)]
    pages[PARTS] = [PARTS_HEAD, *_parts(parts, PARTS, own)]
    return pages


def _parts(parts: dict[str, dict[str, Any]], page: str, own: dict[str, str]) -> Iterator[str]:
    for name in sorted(parts):
        if own[_titled(name)] == page:
            yield from ["", f"## {_titled(name)}", "", _text(parts[name]), "", *_table(parts[name], page, own)]


def _contents(schemas: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield from ["| result | of |", "| --- | --- |"]
    for kind, found in schemas.items():
        yield f"| [{found['title']}]({page_of(kind)}.md) | {KINDS[kind][1]} |"


def _measures() -> Iterator[str]:
    yield from [
        "## Measures",
        "",
        MEASURES_HEAD,
        "",
        "| measure | in reports | of | unit | in trackers |",
        "| --- | --- | --- | --- | --- |",
    ]
    for key, measure in MEASURES.items():
        tracked = f"`{measure.shown_as.get('tracker', key)}`" if "tracker" in measure.places else ""
        yield f"| `{key}` | {measure.title} | {measure.on} | {measure.unit} | {tracked} |"


def _table(of: dict[str, Any], page: str, own: dict[str, str]) -> list[str]:
    rows = [f"| `{name}` | {_type(field, page, own)} | {_text(field)} |" for name, field in of["properties"].items()]
    return ["| field | type | |", "| --- | --- | --- |", *rows]


def _type(field: dict[str, Any], page: str, own: dict[str, str]) -> str:
    if "$ref" in field:
        name = _titled(field["$ref"].rpartition("/")[2])
        place = own.get(name, page)
        link = f"{'' if place == page else f'{place}.md'}#{name.lower()}"
        return "any JSON value" if name == "JsonValue" else f"[{name}]({link})"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(each, page, own) for each in field["anyOf"]))
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return " or ".join(f"`{json.dumps(word)}`" for word in field["enum"])
    kind = field.get("type", "any")
    if kind == "array":
        each = field.get("items") or (field.get("prefixItems") or [{}])[0]
        return f"list of {_type(each, page, own)}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"dict of {_type(field['additionalProperties'], page, own)}"
    words = {"null": "None", "string": "str", "integer": "int", "number": "float", "boolean": "bool", "object": "dict"}
    return words.get(kind, kind)


def _titled(name: str) -> str:
    """A definition's name without what is not of its type's name, such as the parameters of a generic."""
    return re.sub(r"_+", "_", re.sub(r"\W", "_", name)).strip("_")


def _text(of: dict[str, Any]) -> str:
    text = " ".join(str(of.get("description", "")).split("Attributes:")[0].split())
    return re.sub(r"([|*<>])", r"\\\1", text)
