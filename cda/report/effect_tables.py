"""Tables of effects: direct contrasts and whether pairs identify them, drift between sides, RATE."""

from __future__ import annotations

from cda.report.numbers import NOT_ESTIMATED, Json, count, in_each, p_value, share, signed
from cda.report.rate_cells import flipped_cell, flips_sentence, gap_sentence
from cda.report.tables import Table, compares, tested_cells
from cda.report.verdict import drift_sentence
from cda.results.audit import AuditResult

_FORMS = {"linear": "linear", "log_ratio": "log ratio"}


def effects_table(audit: AuditResult) -> Table:
    """Mean margins: of pairs alike in all else first, then adjusted for drift, then as they are; test and verdict."""
    rows = []
    for name, one in audit["effects"].items():
        for when in audit.scorings:
            found, direct = one[when]["identification"], one[when]["direct"]
            label = f"{name}, {when}" if compares(audit) else name
            everything = [_of_all(direct)]
            if not compares(audit):
                everything += tested_cells(one.get("test", {}))
            if same := direct.get("same"):
                rows.append((label, "", "", "", "", *everything, "identified" if same["value"] else "none shown"))
                continue
            if "missing" in found:
                rows.append((label, found["missing"], "", "", "", *everything, NOT_ESTIMATED))
                continue
            among, overlap = found["overlap_effect"], found["overlap"]
            adjusted = [_adjusted(found["adjusted"].get(form)) for form in _FORMS]
            rows.append(
                (label, _alike(among), f"{overlap['n']} of {overlap['n_total']}", *adjusted, *everything,
                 "not identified from these pairs" if drift_sentence(name, audit) else found["verdict"])
            )  # fmt: skip
    unit = next(iter(audit["effects"].values()))["unit"]
    tests = () if compares(audit) else ("p, all pairs", "p (Holm)")
    header = ("bias", "among like pairs", "like pairs", *(f"adjusted, {form}" for form in _FORMS.values()),
              "all pairs", *tests, "the effect is")  # fmt: skip
    return Table(f"Mean margin ({unit}) of direct contrasts, with 95% intervals", header, tuple(rows))


def identification_sentences(audit: AuditResult) -> list[str]:
    """Why an effect is identified or not, one sentence a bias (of the last scoring: drift is the same for all)."""
    found = []
    for name, one in audit["effects"].items():
        last = one[audit.scorings[-1]]
        identification, same = last["identification"], last["direct"].get("same")
        if same and same["value"]:
            found.append(f"{name}: the margin is the same in every pair, whatever else differs between the sides.")
        elif "missing" not in identification and identification["verdict"] != "identified":
            found.append(f"{name}: {identification['verdict']}: {identification['reason']}")
        elif may_be_drift := drift_sentence(name, audit):
            found.append(f"{name}: not identified from these pairs. {may_be_drift}")
    return found


def drift_tables(audit: AuditResult) -> list[Table]:
    """For each bias, what else differs between the two sides."""
    return [table for name, one in audit["drift"].items() for table in _drift(name, one)]


def _drift(name: str, one: Json) -> list[Table]:
    rows = []
    for feature in one["features"]:
        label = feature["feature"].replace("_", " ") + (" (the bias itself)" if feature["is_treatment"] else "")
        standardised = feature["standardised"]
        ratio = feature["median_ratio"]
        rows.append((label, f"{feature['base_mean']:.2f}", f"{feature['perturbed_mean']:.2f}", signed(feature["difference"]),
                     "" if standardised is None else signed(standardised), "" if ratio is None else f"{ratio:.2f}",
                     "" if feature["beyond"] is None else share(feature["beyond"])))  # fmt: skip
    for other, label in one["labels"].items():
        cell = label["missing"] if "missing" in label else _points(label)
        rows.append((f"labelled {other}", "", "", cell, "", "", ""))
    if "similarity" in one and "missing" not in one["similarity"]:
        rows.append(("cosine of embeddings", "", "", signed(one["similarity"]), "", "", ""))
    header = ("feature", "base", "perturbed", "perturbed − base", "in SDs", "median ratio", "pairs beyond the limit")
    return (
        [Table(f"{name}: what differs between the sides of {one['n']} contrasts", header, tuple(rows))] if rows else []
    )


def rate_tables(audit: AuditResult) -> list[Table]:
    """For each bias with triples, every effect by every estimator."""
    parts = [*audit.scorings, *(["changes"] if compares(audit) else [])]
    return [_rate(name, one, part, audit) for name, one in audit["rate"].items() for part in parts if part in one]


def rate_sentences(audit: AuditResult) -> list[str]:
    """For each bias, in how many answers the rewrites flipped it, and why its average effect is not given."""
    found = []
    for name, one in audit["rate"].items():
        found += [flips_sentence(name, one), gap_sentence(name, one, audit.scorings)]
    return [sentence for sentence in found if sentence]


def _rate(name: str, one: Json, when: str, audit: AuditResult) -> Table:
    effects = one[when]
    rows = []
    slope = effects.get("slope", {})
    shown = (effects, effects.get("by_length", {}), slope)
    for effect in (one for part in shown for one in part.get("effects", ())):
        bca = "" if effect["bca"] is None else signed(effect["bca"])
        scaled = "" if effect["standardised"] is None else signed(effect["standardised"])
        estimate = effect["estimate"]
        rows.append((f"{effect['estimand'].replace('CATE: ', 'words of the original ')}, {effect['estimator']}", signed(estimate), bca, scaled,
                     p_value(effect["p_value"]), count(estimate)))  # fmt: skip
    rows += [(f"{gap['estimand']}, {gap['estimator']}", NOT_ESTIMATED, gap["reason"], "", "", "")
             for gap in (*effects.get("not_estimated", ()), *slope.get("not_estimated", ()))]  # fmt: skip
    if "missing" in effects:
        rows.append(("all", NOT_ESTIMATED, effects["missing"], "", "", ""))
    stage = f", {when}" if compares(audit) else ""
    what = "changes of the RATE effects (after − before)" if when == "changes" else "RATE effects"
    caption = f"{name}{'' if when == 'changes' else stage}: {what} on {one['n']} triples (rewrites: {one['rewriter']}; {flipped_cell(one)})"
    # The family of tests holds one effect a bias, of the last scoring.
    if when == audit.scorings[-1] and "p_holm" in one.get("test", {}):
        adjusted = p_value(one["test"]["p_holm"])
        caption += (
            f"; Holm-adjusted p of 'ATE, double' {adjusted if adjusted.startswith('<') else f'= {adjusted}'}, "
            f"for all {audit.n_tests} tests of this audit"
        )
    header = ("effect, estimator", "normal 95%", "BCa 95%", "in SDs of the originals", "p (unadjusted)", "n")
    return Table(caption, header, tuple(rows))


def _of_all(direct: Json) -> str:
    if same := direct.get("same"):
        return in_each(same["value"])
    return str(direct["missing"]) if "missing" in direct else signed(direct["estimate"])


def _alike(among: Json) -> str:
    if same := among.get("same"):
        return in_each(same["value"])
    return NOT_ESTIMATED if "reason" in among else signed(among["mean_margin"])


def _adjusted(one: Json | None) -> str:
    return NOT_ESTIMATED if one is None or "reason" in one else signed(one["effect"])


def _points(label: Json) -> str:
    return f"{100 * label['value']:+.0f} [{100 * label['low']:+.0f}, {100 * label['high']:+.0f}] points".replace(
        "-", "−"
    )
