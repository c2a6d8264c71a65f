"""Combinations that do not exist: one table, one sentence each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from privest.errors import NotOffered

if TYPE_CHECKING:
    from privest.workflow.spec import Spec


YES_NO = (0.0, 1.0)  # the range of a yes/no outcome


class _Facts:
    def __init__(self, spec: Spec) -> None:
        from privest.workflow.spec import distribution_of, ends_of

        model, privacy = spec.model, spec.privacy
        self.person, self.weights = model.person is not None, model.weights is not None
        self.capped = model.most_rows is not None
        self.several, self.family = len(model.target) > 1, model.family
        self.numeric = model.family == "gaussian"
        self.recoded = self.family == "binomial" and bool(set(privacy.range.values()) - {YES_NO})
        self.log = model.transform == "log"
        self.distribution = distribution_of(model, privacy)
        self.gaussian = self.distribution.normal
        self.response = self.distribution.bits
        self.levels = privacy.level_column is not None
        self.accuracy = privacy.standard_error is not None
        self.epsilon, self.delta = privacy.epsilon is not None, privacy.delta is not None
        self.sensitivity = privacy.sensitivity is not None
        ends = [ends_of(model, privacy, target) for target in model.target]
        self.ranged = None not in ends
        self.positive = all(one is not None and one[0] > 0 for one in ends)
        self.aggregate = privacy.form == "aggregate"
        self.matrix = privacy.publish != "estimates"
        self.within, self.pilot = privacy.within is not None, privacy.pilot is not None
        self.expected = bool(spec.public.expected)
        self.variance = spec.public.residual_variance is not None
        self.reference = spec.public.reference is not None
        self.correlation = spec.public.within_person_correlation is not None


REFUSALS: dict[str, tuple[Callable[[_Facts], bool], str]] = {
    "aggregate": (
        lambda f: f.aggregate and not (f.gaussian and f.ranged),
        "The aggregate form needs Gaussian noise and the public range of every private column: "
        "state the range, or take the form rows.",
    ),
    "aggregate-promise": (
        lambda f: f.aggregate and f.sensitivity,
        "The aggregate form keeps its promise over the whole range: leave the sensitivity out.",
    ),
    "aggregate-weights": (
        lambda f: f.aggregate and f.weights,
        "The aggregate form has no survey weights: take the form rows, or leave the weights out.",
    ),
    "aggregate-counts": (
        lambda f: f.aggregate and f.family == "poisson",
        "Counts in sums are not offered before 1.0: their intervals were too narrow. Plan the mean "
        "or least squares of the count as a number, or take the form rows.",
    ),
    "aggregate-persons": (
        lambda f: f.aggregate and f.person and not f.epsilon,
        "Sums of persons with several rows are planned by ε: state epsilon.",
    ),
    "publish": (
        lambda f: f.matrix and not f.aggregate,
        "Only the aggregate form publishes a matrix: rows leave as they are.",
    ),
    "within": (
        lambda f: f.within and not (f.aggregate and f.numeric and not (f.person or f.several)),
        "Differences from a prediction (within) need the aggregate form of one numeric outcome, "
        "one row per person.",
    ),
    "within-prediction": (
        lambda f: f.within and f.pilot == f.expected,
        "within needs a prediction: a pilot, or expected coefficients, and not both.",
    ),
    "expected": (
        lambda f: f.expected and f.numeric and not f.within,
        "Expected coefficients are the prediction that `within` counts from: state both, or none.",
    ),
    "pilot": (
        lambda f: f.pilot and not (f.within and f.epsilon),
        "A pilot needs an epsilon, and within: how far values are at most from their prediction.",
    ),
    "person-rows": (
        lambda f: f.person and not f.aggregate,
        "Persons with several rows need the aggregate form, with an epsilon: take it, or leave the "
        "column of persons out where every row is a person.",
    ),
    "person-family": (
        lambda f: f.person and not f.numeric,
        "Persons with several rows need a numeric outcome: leave the family out.",
    ),
    "cap": (
        lambda f: f.capped and not f.person,
        "A cap on the rows of a person needs the column that says whose row it is.",
    ),
    "person-correlation": (
        lambda f: f.correlation and not f.person,
        "A correlation within a person needs the column that says whose row it is.",
    ),
    "level-column": (
        lambda f: (
            f.levels and (not (f.gaussian and f.numeric) or f.weights or f.several or f.aggregate)
        ),
        "A level column needs Gaussian noise on one numeric outcome, one row per person, without "
        "weights.",
    ),
    "several": (
        lambda f: f.several and (f.person or not f.numeric or not f.aggregate),
        "Several private columns need the aggregate form on numeric outcomes, one row per person: "
        "take it, or release them one by one.",
    ),
    "several-variance": (
        lambda f: f.several and f.variance,
        "Several private columns have a residual variance each: give a reference, or nothing.",
    ),
    "yes-no": (
        lambda f: not f.aggregate and (f.family == "binomial") != f.response,
        "A yes/no outcome takes randomised response, other outcomes Gaussian or Laplace noise: "
        "state another distribution, or another family.",
    ),
    "yes-no-range": (
        lambda f: f.recoded,
        "A yes/no outcome is 1 or 0, without a range: leave the range out, and write other codes "
        "as 1 and 0.",
    ),
    "family-transform": (
        lambda f: not f.numeric and f.log,
        "A family has its own link: leave the transform out.",
    ),
    "family-variance": (
        lambda f: not f.numeric and (f.variance or f.reference),
        "The variance of yes/no and count outcomes follows from their mean: leave the residual "
        "variance and the reference out.",
    ),
    "log-range": (
        lambda f: f.log and not f.positive,
        "A logarithm needs a public range above 0: values at or below 0 have no logarithm, and "
        "clipping is the only step that does not reveal them.",
    ),
    "pure-delta": (
        lambda f: not f.gaussian and f.delta,
        "This distribution keeps its ε without a delta: leave delta out.",
    ),
    "pure-promise": (
        lambda f: not f.gaussian and f.accuracy,
        "Laplace noise and randomised response take epsilon or a level: state one of them, in "
        "place of a wanted accuracy.",
    ),
    "response-sensitivity": (
        lambda f: f.response and f.sensitivity,
        "Randomised response hides a yes from a no: leave the sensitivity out.",
    ),
    "epsilon": (
        lambda f: f.epsilon and ((f.gaussian and not f.delta) or not (f.ranged or f.sensitivity)),
        "ε needs a range, which enforces the sensitivity, and with Gaussian noise a delta: state "
        "the range of the target, and a delta such as 1e-6.",
    ),
    "delta": (
        lambda f: f.delta and not (f.ranged or f.sensitivity),
        "A delta needs a range, or the sensitivity that ε is about: state one of them.",
    ),
    "sensitivity": (
        lambda f: f.gaussian and f.sensitivity and not f.delta,
        "A sensitivity needs a delta: state one, such as 1e-6.",
    ),
    "accuracy": (
        lambda f: f.accuracy and (not f.numeric or f.person or f.several),
        "The level for a wanted accuracy needs one numeric outcome, one row per person.",
    ),
    "accuracy-variance": (
        lambda f: f.accuracy and not (f.variance or f.reference),
        "The level for a wanted accuracy needs the residual variance: state it, or a reference.",
    ),
}


def require_offered(spec: Spec) -> None:
    facts = _Facts(spec)
    refused = {key: said for key, (is_refused, said) in REFUSALS.items() if is_refused(facts)}
    if refused:
        raise NotOffered(refused)
