"""Parts of results by bias: a misspelt name is said with the nearest, in every view."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from made_audits import KINDS, make_audit
from made_dose import held_out, made_dose

import cda
from cda.results.audit import AuditResult
from cda.results.base import ByName, public_name

VIEWS = (
    "skew", "votes", "votes_undecided", "panel", "criteria", "by", "effects", "drift", "rate", "analysis", "triple_skew",
    "unseen_phrases", "beyond_noise", "rewards",
)  # fmt: skip


@pytest.fixture(scope="module")
def audit() -> AuditResult:
    return make_audit(**KINDS["voted"])


def test_a_misspelt_bias_is_said_with_the_nearest(audit: AuditResult) -> None:
    with pytest.raises(KeyError) as raised:
        audit.skew["jargn"]
    known = ", ".join(audit.skew)
    assert str(raised.value) == f"'jargn': no such bias; did you mean 'jargon'? measured: {known}"
    with pytest.raises(KeyError) as raised:
        audit.skew["zzz"]
    assert str(raised.value) == f"'zzz': no such bias; measured: {known}"
    assert audit.skew.get("jargn") is None and "jargn" not in audit.skew


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_by_bias_does_so(audit: AuditResult, view: str, tmp_path: Path) -> None:
    audit.save(tmp_path / "audit.json")
    read = cda.load(tmp_path / "audit.json")
    for found in (audit, read, copy.deepcopy(audit)):
        with pytest.raises(KeyError, match=r"'jargn': no such bias; .*measured: ") as raised:
            getattr(found, view)["jargn"]
        assert ("did you mean 'jargon'?" in str(raised.value)) == ("jargon" in getattr(found, view))


def test_no_view_by_bias_is_a_plain_dict(audit: AuditResult) -> None:
    """A field that maps the audited biases has to be declared as one by bias."""
    names = {each.name for each in audit.biases}
    plain = [
        name
        for name, part in audit
        if isinstance(part, dict) and part and set(part) <= names and not isinstance(part, ByName)
    ]
    assert plain == []


def test_a_misspelt_attribute_is_said_with_the_nearest_and_the_public_name(audit: AuditResult) -> None:
    said = {
        "skw": "Audit has no attribute 'skw'; did you mean 'skew'?",
        "nonsense": "Audit has no attribute 'nonsense'",
    }
    for name, expected in said.items():
        with pytest.raises(AttributeError) as raised:
            getattr(audit, name)
        assert str(raised.value) == expected
    with pytest.raises(AttributeError, match="did you mean 'before'"):
        audit.skew["jargon"].befor  # noqa: B018
    for name in ("jargon", "jargn"):
        with pytest.raises(AttributeError, match=r"did you mean \['jargon'\]\?"):
            getattr(audit.skew, name)
    assert {public_name(getattr(cda, name)) for name in ("Audit", "Quality", "DataAudit", "BestOf", "Dose")} == {
        "Audit", "Quality", "DataAudit", "BestOf", "Dose",
    }  # fmt: skip
    assert copy.deepcopy(audit) == audit and not hasattr(audit, "_repr_png_")


def test_doses_and_data_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dose = made_dose({"jargon": held_out(0.4, 0.1, 0.05, None)})
    for view in (dose.own.held_out, dose.own.response):
        with pytest.raises(KeyError, match="did you mean 'jargon'"):
            view["jargn"]
    pairs = [{"prompt": f"{n}?", "chosen": "- a\n- b", "rejected": "a"} for n in range(20)]
    data = cda.audit_data(pairs, biases="structure", progress=False)
    with pytest.raises(KeyError, match="did you mean 'structure'"):
        data.bias("structur")


def test_moments_of_one_model_and_of_a_training() -> None:
    plain, trained = make_audit(**KINDS["one_model"]), make_audit()
    table = plain.numbers.where("skew").pivot("bias", "moment")
    for look in (lambda: table["jargon"]["before"], lambda: plain.skew["jargon"].of("before")):
        with pytest.raises(KeyError) as raised:
            look()
        assert str(raised.value) in (
            "'before': no such moment; known: model",
            "'before': no such scoring; known: model",
        )
    with pytest.raises(KeyError, match="'jargn': no such bias; did you mean 'jargon'"):
        table["jargn"]
    with pytest.raises(KeyError, match="'befor': no such moment; did you mean 'before'"):
        trained.numbers.where("skew").pivot("bias", "moment")["jargon"]["befor"]


@pytest.mark.parametrize("name", ["x.html", "x.md", "x.csv", "x"])
def test_a_result_is_saved_as_json_alone(audit: AuditResult, name: str, tmp_path: Path) -> None:
    with pytest.raises(cda.DataError, match=r"saved as JSON \(\.json\); report\(\) writes a page"):
        audit.save(tmp_path / name)
    assert not list(tmp_path.iterdir())
