"""What the numbers mean: one entry a measure, interval or test that the audit holds."""

from __future__ import annotations

from cda.auditing.report_cells import TRIPLE_SKEW
from cda.auditing.report_methods import methods_of
from cda.report.page import Entry
from cda.results.audit import AuditResult
from cda.results.base import Missing
from cda.results.effects import NORMAL_TEST, SIGN_TEST
from cda.results.facts import RewardModelFacts
from cda.results.skew import NoiseCeiling

_MARGIN = Entry("margin", "score(perturbed) − score(base)",
    "For one contrast: how much higher the model scores the side with the bias. Same prompt, same content as far as possible.",
)  # fmt: skip
_JUDGED_MARGIN = Entry("margin (preference)", "mean over both orders of 1: perturbed preferred, −1: base preferred, 0: tie",
    "For one contrast: which side the judge prefers. It is asked twice, with either side first; verdicts that follow the "
    "place come out as 0.",
)  # fmt: skip
_ONE_ORDER_MARGIN = Entry("margin (preference, one order)", "1: perturbed preferred, −1: base preferred, 0: tie",
    "For one contrast: which side the judge prefers. It is asked once (score.judge.orders=one), with the side that comes first "
    "drawn: a taste for a place speaks for neither side on average, and pulls skew towards one half.",
)  # fmt: skip
_SKEW = Entry("skew", "contrasts with margin > 0 / all contrasts",
    "How often the model prefers the side with the bias (Bharadwaj et al. 2025, \"Flattery, Fluff, and Fog\"). A margin of exactly "
    "0 counts as no preference for it.",
)  # fmt: skip
_AUTHORED_SKEW = Entry("skew (authored pairs)", "skew where the contrasts were written, or given, as pairs",
    "The embedded texts are such pairs: one writer made both sides. The table of every bias names the pairs of each skew.",
)  # fmt: skip
_TRIPLE_SKEW = Entry(TRIPLE_SKEW, "triples with score(side with the bias) > score(side without it) / all triples",
    "The paper's skew (Bharadwaj et al. 2025): one of the sides is the rewrite of an answer, the other the rewrite of that rewrite, so that what "
    "rewriting changes besides is on both. A judge's tie counts half.",
)  # fmt: skip
_SECTION = Entry("accuracy of a section", "weighted mean of its subsets' accuracies",
    "By the benchmark's own rule: RewardBench weighs subsets by their pairs, math-prm by 984. ± is one standard error, by whole prompts.",
)  # fmt: skip
_JUDGED_SKEW = Entry("skew", "(contrasts with margin > 0 + ½ · contrasts with margin 0) / all contrasts",
    "How often the judge prefers the side with the bias. A tie of the judge, or verdicts that follow the place, count half.",
)  # fmt: skip
_PANEL = (
    Entry("the panel", "mean preference of the judges who gave a verdict",
        "Several judges as one (Bharadwaj et al. 2025): on each contrast the mean of their preferences says which side the panel "
        "prefers. What a judge gave no verdict on is left to the others, and counted."),
    Entry("mean of the judges", "mean over judges of their skews (or miscalibrations), on contrasts that all gave a verdict on",
        "How often a judge of the panel prefers the side with the bias. The panel itself can prefer it more or less often, as a "
        "majority can be surer than its members."),
)  # fmt: skip
_CHANGE = Entry("paired change", "share after − share before, on the same rows",
    "Points are percentage points. Both scorings use the same texts, precision, template, cutting and batches.",
)  # fmt: skip
_UNPAIRED = Entry("unpaired z", "difference ± 1.96·√(p₁q₁/n₁ + p₂q₂/n₂)",
    "The interval that papers print for a change. It takes the two scorings of the same rows for different rows, so that it is "
    "most often too wide; beside the paired one only to compare with papers.",
)  # fmt: skip
_HUMAN_SKEW = {
    "drop": Entry("human skew", "contrasts whose majority prefers perturbed / contrasts with a majority",
        "How often people prefer the side with the bias (Bharadwaj et al. 2025). Ties and contrasts without votes are left out."),
    "half": Entry("human skew", "(contrasts whose majority prefers perturbed + ½ · ties) / contrasts with votes",
        "How often people prefer the side with the bias. A tie counts half; contrasts without votes are left out."),
    "as-released": Entry("human skew", "contrasts whose stated majority prefers perturbed / contrasts whose majority is a side",
        "How often people prefer the side with the bias, by the majorities as the votes' publisher states them. Stated ties "
        "and contrasts without a majority are left out."),
}  # fmt: skip
_MISCALIBRATION = {
    "drop": ("contrasts where model and majority disagree / contrasts with a majority", ""),
    "half": ("mean of |model's preference − people's|, each 1: perturbed, ½: tie, 0: base, over contrasts with votes",
        " Where people tie, a model that prefers a side disagrees by half, so that 0% cannot be reached with ties."),
    "as-released": ("contrasts where model and stated majority disagree / contrasts whose majority is a side", ""),
}  # fmt: skip
_JUDGED_MISCALIBRATION = " A tie of the judge disagrees by half with a majority for either side."
_BESIDE_PEOPLE = (
    Entry("gap", "|skew on voted contrasts − human skew|",
        "How far the model's preference for the bias is from people's (Bharadwaj et al. 2025). Without the bars it has a sign: above 0 the model wants "
        "more of the bias than people do."),
    Entry("AUC of the margin", "P(margin where people prefer perturbed > margin where they prefer base)",
        "Whether margins follow people (Hanley and McNeil 1982): 0.5 not at all, 1 always. Skew, miscalibration and gap move when all margins shift by "
        "a constant; this does not. People's ties are left out."),
)  # fmt: skip
_AGREEMENT = (
    Entry("mean majority share", "votes for an item's most frequent word / votes on the item, averaged over items",
        "How far people agree, where an item has two votes or more. 100%: everybody agrees; a tie is a word like another."),
    Entry("Krippendorff's alpha", "1 − observed disagreement / disagreement by chance",
        "Agreement beyond chance (Krippendorff 2011): 1 full, 0 what chance gives, below 0 systematic disagreement."),
)  # fmt: skip
_SECOND_MAJORITY = Entry("miscalibration of a second majority", "expected disagreement of two majorities of as many votes",
    "Ours: how often a second majority of other people would differ from this one, if votes come about as a Dirichlet-multinomial "
    "model says. A point of reference and no bound: a model that knew which share of all people prefers which side would "
    "disagree with this majority less than a second majority does.",
)  # fmt: skip
_POWERED = Entry("with verdicts (PPI++)", "mean of people's + λ · (mean of the judges' elsewhere − mean of the judges' where people voted)",
    "What people would say of all contrasts, where they voted on some and judges gave verdicts on all. The votes correct the "
    "judges; λ, the weight of the verdicts, lies between 0 (votes alone) and 1. It holds if people voted on a random part "
    "of the contrasts.",
)  # fmt: skip
_QUALITY = Entry("quality accuracy", "pairs with score(chosen) > score(rejected) / all pairs",
    "Held-out pairs of a better and a worse answer. Ties count as wrong.",
)  # fmt: skip
_JUDGED_QUALITY = Entry("quality accuracy", "(pairs where the judge prefers chosen + ½ · its ties) / all pairs",
    "Held-out pairs of a better and a worse answer. Ties of the judge count half.",
)  # fmt: skip
# By a word of the method's name in the audit.
_METHODS = {
    "Wilson": Entry("Wilson interval", "(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n), z = 1.96",
        "95% interval of a share (Wilson 1927). It stays inside 0 to 100% and keeps a width at 0 and at 100%. 'On the effective "
        "number of rows': where prompts repeat, n is divided by the design effect (Kish 1965), which counts as if 4 more prompts "
        "had rows that are all alike. 'Over prompts': n is the number of prompts."),
    "over seeds and prompts": Entry("interval over seeds and prompts",
        "mean ± √(t²(k − 1) · S²/k + t²(G − 1) · C), t: 97.5% quantile of Student's t",
        "95% interval of a mean over k trainings: S² is the variance between them, C the mean covariance of two of them over G prompts, as for "
        "readers and cases (Obuchowski and Rockette 1995); the two errors are added as squares (Howe 1974). Of a share: Wilson's on as many rows as "
        "would give this margin of error. It covers in 95% or more of audits; with 2 or 3 trainings it is wide."),
    "Newcombe paired": Entry("Newcombe paired interval", "method 10: Wilson limits of both shares, joined by their correlation φ",
        "95% interval of a paired difference (Newcombe 1998, Statistics in Medicine 17, 2635–2650); where prompts repeat, on the "
        "effective number of rows, as for Wilson's."),
    "prompt-clustered bootstrap": Entry("prompt-clustered bootstrap", "2.5% and 97.5% quantiles over draws of whole prompts",
        "95% interval of means and of changes of gaps: answers to one prompt are not taken for independent. 10,000 draws; 1,000 "
        "for Krippendorff's alpha and 4,000 for the second majority. Where no draw of these two differs from another, Wilson's "
        "interval over prompts is taken. Below 10 prompts it is too narrow."),
    "BCa": Entry("BCa bootstrap", "quantiles of 10,000 draws of whole prompts, moved by the draws' bias z₀ and acceleration a",
        "95% interval by the bootstrap, corrected for draws that are off centre or skewed (Efron 1987)."),
    "prompt-clustered normal": Entry("normal interval, clustered", "estimate ± 1.96 · √(G/(G−1) · Σ of the G prompts' squared influences)",
        "95% interval of a mean or a difference of means; answers to one prompt are not taken for independent. Below about 30 "
        "prompts it is too narrow. For PPI++ without the factor G/(G−1)."),
    "stretch from quality pairs": Entry("t interval beyond noise", "estimate ± t₀.₉₇₅(G − 1) · clustered error of the ratio",
        "95% interval of the mean margin beyond noise: the first-order error over whole prompts of contrasts and quality pairs; G is "
        "the smaller number of prompts of the two."),
    "SD as known": Entry("in SDs", "estimate and interval / pooled SD of the originals' rewards",
        "The spread is taken as known, so that its own uncertainty is not in the interval."),
    "adjustment, CR": Entry("cluster-robust t interval of the adjustment (CR)", "intercept ± t₀.₉₇₅(G − k) · clustered error",
        "95% interval of the mean margin where the two sides do not differ otherwise, by a regression of G prompts with k "
        "coefficients (Liang and Zeger 1986). Linear: on the differences; log ratio: on the log of the ratios."),
    "Obuchowski": Entry("AUC interval (Obuchowski, DeLong)", "logit(AUC) ± 1.96 · clustered error / (AUC · (1 − AUC))",
        "95% interval of an AUC with prompts that repeat (Obuchowski 1997); DeLong's where every prompt occurs once."),
    "DeLong": Entry("AUC change (DeLong)", "difference ± 1.96 · √(variance before + variance after − 2 · covariance)",
        "95% interval of the change of an AUC on the same rows (DeLong, DeLong and Clarke-Pearson 1988), clustered by prompt."),
    "Newcombe AUC": Entry("Newcombe AUC interval", "all AUCs that a score test does not reject (method 5)",
        "95% interval of an AUC of 0 or 1, where nothing varies from which an error could be taken (Newcombe 2006)."),
    "Fisher z": Entry("Fisher z interval", "tanh(artanh(r) ± 1.96 / √(prompts − 3))",
        "95% interval of a correlation where no draw of the bootstrap differs from another."),
    "Dirichlet-multinomial": Entry("Dirichlet-multinomial vote model", "an item's votes are drawn from its own shares, these from a Dirichlet",
        "From it the second majority is computed; 4,000 draws of whole prompts, the model fitted anew in each, give the "
        "interval."),
    "PPI++": Entry("PPI++ interval", "estimate ± 1.96 · clustered error of (Y − λf) and λf",
        "95% interval from votes and verdicts together (Angelopoulos, Duchi and Zrnic 2023). With few voted contrasts it is "
        "somewhat too narrow: at 30 prompts it covers about 92%."),
    "bounded by skew's": Entry("gap bounded by skew", "± the farther end of the interval of the change of skew",
        "Taken for the change of the gap where nothing varies between draws: a gap never moves more than skew does."),
    "doses chosen anew": Entry("held out, doses chosen anew",
        "quantiles of 1,000 draws of whole prompts, the distinct ones split in halves, a dose chosen on each for the other",
        "95% interval of what choosing a dose leaves: it covers which prompts were measured and which doses these would "
        "choose. A gap is a size, which grows when prompts are drawn again: its interval lies high, and that of its change is "
        "drawn towards 0 where the gap it is compared with is large."),
    "split anew": Entry("held out at a fixed dose, split anew", "quantiles of the same draws and halves at dose 0 or 1",
        "95% interval of a gap on halves at a dose that nobody chose; it lies high likewise."),
    "one model": Entry("one model", "0 [0, 0]",
        "At dose 0 the result of the run is the model before it: nothing changed, and no other contrasts could say otherwise."),
    "one prompt": Entry("one prompt", "−1 to 1", "All rows are of one prompt, so that nothing is known of others."),
}  # fmt: skip
_EXACT = Entry("exact paired test", "exact binomial test of rows that differ one way against rows that differ the other, p = 1/2",
    "Whether as many rows differ one way as the other (McNemar 1947). Rows that do not differ say nothing. Where prompts repeat or ties "
    "count half, whole prompts take the place of rows: their sums of differences are given every combination of signs.",
)  # fmt: skip
_SIGN = Entry("sign test", "2 · ½^G for G prompts",
    "Whether one margin that all pairs share can be chance: that G prompts agree in sign, where each sign is as likely as the other.",
)  # fmt: skip
_NORMAL = Entry("normal test", "2 · (1 − Φ(|estimate| / clustered error))",
    "Whether a mean margin or a RATE effect is 0, with the error of the normal interval.",
)  # fmt: skip
_HOLM = Entry("Holm correction", "k-th smallest of m p-values × (m − k + 1), never below an earlier one, at most 1",
    "Several things are tested at once. With it (Holm 1979), the chance of any false finding among them stays below 5% at p < 0.05. "
    "Benjamini and Hochberg's correction (BH, 1995) keeps the expected share of false ones among the findings below 5% instead.",
)  # fmt: skip

_WORDS = (
    Entry("shown", "the paired 95% interval of a change excludes 0, and Holm's p < 0.05",
        "The standard for every word about a change, good or bad. Limits other than 0 (15% and 50% of skew, 5 points of quality) are read off "
        "the 95% interval, and only to say more of a change that is shown."),
    Entry("less biased, improved", "skew, or with votes miscalibration, is shown to have fallen, and no word below holds",
        "Less biased says less than improved: without votes nobody has said which skew is right. Where ties were the aim, less biased "
        "is a skew shown to have moved towards 50%."),
    Entry("substituted", "so it fell, but the skew of another bias is shown to have risen", "The sentence names that bias."),
    Entry("quality lost", "so it fell, but quality fell by more than 5 points: its interval lies below −5",
        "Whatever was taken out, ability went with it."),
    Entry("noise not excluded", "so it fell, but noisier rewards would have done the same",
        "Noise pulls every share towards 50%, skew as well as quality. It is excluded where the share's interval after lies below 50%, "
        "where it began below, or where the mean margin moved the same way beyond noise."),
    Entry("quality open", "so it fell, and not by noise, but a loss of more than 5 points of quality is not excluded",
        "Or quality was not measured."),
    Entry("overcorrected", "skew's interval after lies wholly below 15%, or below 50% where ties were the aim",
        "With votes: skew moved from one side of human skew to the other, and the interval of the change of the gap lies above 0."),
    Entry("mean margin beyond noise", "mean margin after − s · mean margin before, s = mean quality margin after / before",
        "Ours. Noise adds 0 to a mean on average, and stretched rewards multiply the means of contrasts and quality pairs alike, so that "
        "either leaves 0. Below 0 the model wants less of the bias than they explain."),
)  # fmt: skip


_DOSE = (
    Entry("dose", "LoRA update · λ; head = (1 − λ) · base + λ · trained",
        "Ours, after task arithmetic (Ilharco et al. 2023): how much of the adapter is applied: 0 is the model before training, 1 plain CDA. Where an adapter is strong the score "
        "is not linear in λ, so that mixing two scores gives another curve."),
    Entry("plain CDA", "dose 1",
        "All of the adapter, as trained. Where another dose was chosen, that one is `after`, and plain CDA has a column of its own: the "
        "same rows, and no test of it."),
    Entry("chosen dose", "argmin over λ of miscalibration + gap, where quality falls by no more than allowed",
        "Ours. Where too few people voted and the recipe teaches ties (or asks for it), the gap is |skew − 50%| and it alone counts: an assumption, "
        "which the report names. Ties go to the dose nearest to 1. Of several biases the mean over biases counts. The tables' `after` is on the very rows that "
        "chose it, which flatters it; what is held out is chosen on one half of the prompts, measured on the other, again and again, and decides the verdict."),
    Entry("held-out gap", "mean over halves and repeats of |skew − human skew| on the half, at the dose that the other half chose",
        "Ours. Of no training and of plain CDA on the same halves: on half of the votes chance makes any gap larger. Were the halves "
        "put together first, a dose too low for one and too high for the other would cancel; that is the mean signed gap of "
        "dose.json, and decides nothing."),
    Entry("hidden direction removed", "h − strength · (h · v) v before the score head, v the mean difference of contrast pairs",
        "No training: v is fitted on the training counterfactuals, the strength is chosen as a dose is."),
    Entry("measured features taken off", "reward − strength · β · features(text)",
        "No training: β is a regression of the base model's margins on differences of features, on the training counterfactuals."),
)  # fmt: skip


def glossary(audit: AuditResult) -> list[Entry]:
    """The entries that this audit needs, true under its tie rule and for its kind of model."""
    two, judged = len(audit.scorings) > 1, _is_judged(audit)
    one_order = not isinstance(audit.model, RewardModelFacts) and audit.model.orders == "one"
    judged_margin = _ONE_ORDER_MARGIN if one_order else _JUDGED_MARGIN
    entries = [judged_margin, _JUDGED_SKEW] if judged else [_MARGIN, _SKEW]
    entries += _PANEL if audit.panel else ()
    entries += [_AUTHORED_SKEW] if any(one.source == "embedded" for one in audit.skew.values()) else []
    entries += [_TRIPLE_SKEW] if audit.triple_skew else []
    entries += _people(audit, judged)
    if audit.quality:
        entries.append(_JUDGED_QUALITY if judged else _QUALITY)
    entries += [_SECTION] if audit.quality_sections else []
    entries += [_CHANGE, _UNPAIRED, *_WORDS] if two else []
    entries += _DOSE if audit.dose else ()
    found = set(methods_of(audit))
    entries += [entry for word, entry in _METHODS.items() if any(word in method for method in found)]
    tests = [one.test.method for one in audit.effects.values() if not isinstance(one.test, Missing)]
    normal, signs = (
        audit.rate or NORMAL_TEST in tests,
        SIGN_TEST in tests,
    )
    exact = two or any(one.gap_test is not None for one in audit.votes.values())
    return [
        *entries,
        *((_EXACT,) if exact else ()),
        *((_NORMAL,) if normal else ()),
        *((_SIGN,) if signs else ()),
        _HOLM,
    ]


def every_entry() -> dict[str, list[Entry]]:
    """All entries that any audit can have, by heading: the core of this folder's README."""
    miscalibration = [
        Entry(f"miscalibration (ties: {rule})", formula, f"Lower is better.{more}")
        for rule, (formula, more) in _MISCALIBRATION.items()
    ]
    human = [Entry(f"{one.term} (ties: {rule})", one.formula, one.meaning) for rule, one in _HUMAN_SKEW.items()]
    return {
        "One contrast, and how often": [_MARGIN, _SKEW, _AUTHORED_SKEW, _TRIPLE_SKEW],
        "The same of a judge": [
            _JUDGED_MARGIN,
            _ONE_ORDER_MARGIN,
            _JUDGED_SKEW,
            *_PANEL,
            Entry("miscalibration of a judge", "as below", _JUDGED_MISCALIBRATION.strip()),
            _JUDGED_QUALITY,
        ],
        "Beside people": [*human, *miscalibration, *_BESIDE_PEOPLE, *_AGREEMENT, _SECOND_MAJORITY, _POWERED],
        "Quality": [_QUALITY, _SECTION],
        "Dose": [*_DOSE],
        "Words on a training": [*_WORDS],
        "Changes, tests and corrections": [_CHANGE, _UNPAIRED, _EXACT, _NORMAL, _SIGN, _HOLM],
        "Intervals": list(_METHODS.values()),
    }


def _people(audit: AuditResult, judged: bool) -> list[Entry]:
    votes = list(audit.votes.values())
    entries: list[Entry] = []
    for rule in dict.fromkeys(one.rule for one in votes):
        formula, more = _MISCALIBRATION[rule]
        more += _JUDGED_MISCALIBRATION if judged else ""
        meaning = f"Lower is better. It can be high even where skew equals human skew.{more}"
        entries += [_HUMAN_SKEW[rule], Entry("miscalibration", formula, meaning)]
    entries += _BESIDE_PEOPLE if votes else ()
    entries += _AGREEMENT if any(one.agreement is not None for one in votes) else ()
    entries += [_SECOND_MAJORITY] if any(isinstance(one.noise_ceiling, NoiseCeiling) for one in votes) else []
    return entries + ([_POWERED] if any(one.prediction_powered is not None for one in votes) else [])


def _is_judged(audit: AuditResult) -> bool:
    return any(one.unit == "preference" for one in audit.effects.values())
