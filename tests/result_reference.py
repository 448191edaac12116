"""The reference of result files: `docs/results.md` and a JSON Schema for each, made from the types by `python tests/documents.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cda.numbers.measures import MEASURES
from cda.results.audit import AuditResult
from cda.results.base import Saved
from cda.results.benchmarks import BestOfResult, QualityResult
from cda.results.comparison import AuditRow, ComparisonResult
from cda.results.data import DataResult
from cda.results.discover import DiscoverResult, TopicsResult
from cda.results.dose import CalibrationResult, DoseResult
from cda.results.inspect import InspectResult
from cda.results.study import StudyResult

DOCS = Path(__file__).parent.parent / "docs"
KINDS: dict[str, tuple[type[Saved], str]] = {
    "audit": (AuditResult, "`audit/audit.json` of a run: `cda audit`, `cda train`, `cda.audit`, `run.audit`"),
    "quality": (QualityResult, "`quality.json`: `cda quality`, `cda.quality`"),
    "best_of": (BestOfResult, "`best_of_n.json`: `cda best-of`, `cda.best_of`"),
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
    "inspect": (InspectResult, "`inspect.json`: `cda inspect`"),
}


def schema(kind: type[Saved]) -> dict[str, Any]:
    """The JSON Schema of what is written; fields that are only in memory are not in it."""
    found = kind.model_json_schema(mode="serialization")
    for name in kind.in_memory:
        found["properties"].pop(name, None)
    found["required"] = [name for name in found.get("required", []) if name not in kind.in_memory]
    used = _used(found)
    found["$defs"] = {name: part for name, part in found.get("$defs", {}).items() if name in used}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


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
    return {DOCS / "results.md": "\n".join(_page(schemas)) + "\n", **made}


HEAD = """# What stands in a result

Every field of every result, as an attribute in Python and as a key in its file. This page and the JSON Schemas in
[schemas/](schemas/) are made from the types by `python tests/documents.py`. A value that is not there is `Missing`, with its
reason; intervals are 95%. What the numbers mean stands in [reading a report](../cda/report/README.md)."""


MEASURES_HEAD = """The numbers of an audit that have one name everywhere: in conditions (`--fail-if 'jargon.skew>0.7'`), in
`audit.numbers.where("skew", "change", bias="jargon")` and `.pivot("bias", "moment")`, in frames, shared rows and comparisons, and,
under the name in the last column, in experiment trackers and model cards. Older names are read, with a warning."""


def _page(schemas: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield from [HEAD, "", *_measures()]
    parts: dict[str, dict[str, Any]] = {}
    for name, found in schemas.items():
        yield from ["", f"## {found['title']}", "", f"{KINDS[name][1]}. {_text(found)}".strip(), "", *_table(found)]
        parts |= found["$defs"]
    yield from ["", "## Their parts"]
    for name in sorted(parts):
        if "properties" in parts[name]:
            yield from ["", f"### {_titled(name)}", "", _text(parts[name]), "", *_table(parts[name])]


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


def _table(of: dict[str, Any]) -> list[str]:
    rows = [f"| `{name}` | {_type(field)} | {_text(field)} |" for name, field in of["properties"].items()]
    return ["| field | type | |", "| --- | --- | --- |", *rows]


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = _titled(field["$ref"].rpartition("/")[2])
        return "any JSON value" if name == "JsonValue" else f"[{name}](#{name.lower()})"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(map(_type, field["anyOf"])))
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return " or ".join(f"`{json.dumps(word)}`" for word in field["enum"])
    kind = field.get("type", "any")
    if kind == "array":
        each = field.get("items") or (field.get("prefixItems") or [{}])[0]
        return f"list of {_type(each)}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"dict of {_type(field['additionalProperties'])}"
    words = {"null": "None", "string": "str", "integer": "int", "number": "float", "boolean": "bool", "object": "dict"}
    return words.get(kind, kind)


def _titled(name: str) -> str:
    """A definition's name without what is not of its type's name, such as the parameters of a generic."""
    return re.sub(r"_+", "_", re.sub(r"\W", "_", name)).strip("_")


def _text(of: dict[str, Any]) -> str:
    text = " ".join(str(of.get("description", "")).split("Attributes:")[0].split())
    return re.sub(r"([|*<>])", r"\\\1", text)
