"""Scores of output perturbations, by λ: those of a mean with the budget s = 1/λ."""

import numpy as np

import privest as pv
from privest.mechanism import OutputPerturbation


def score_of(law, weight=1.0, **options):
    model = pv.LinearModel(np.ones((20, 1)), noise=law)
    return OutputPerturbation(model, 1.0 / weight, **options).score


def optimal_score(law, weight):
    return score_of(law, weight)


def likelihood_score(law, bandwidth=None, weight=1.0):
    return score_of(law, weight, score="likelihood", bandwidth=bandwidth)
