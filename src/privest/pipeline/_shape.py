"""The covariance of the noise that a scalar budget tr I_z(Y) ≤ s asks for.

The estimate of a score with sensitivity c moves with the data by c·tr(D⁻¹A) = s in the limit,
A = (ΣH_kᵀH_k)⁻¹. Among all D that satisfy this, tr WD is least for the shape of docs/theory.md 3:

    Ã = BᵀAB, W = BBᵀ:   cov of the noise on Bᵀθ̂ = c (tr Ã^½/s) Ã^½ ,    λ = (tr Ã^½)²/(s tr Ã)

The paper takes D = c (n/s) A, λ = n/s: more by the factor n tr A/(tr A^½)² ∈ [1, n].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from privest.arrays import Array, ArrayLike, as_choice
from privest.bounds import weight_root
from privest.errors import InvalidInput
from privest.linalg.batched import substitute

Shape = Literal["trace", "paper"]


@dataclass(frozen=True, eq=False)
class NoiseShape:
    """What a budget means for one H.

    targets   (r, n): Tθ is released; the identity (`whole`) unless the weight is singular, then Bᵀ.
    unit      (r, r) covariance of the noise on Tθ̂ for sensitivity c = 1.
    spread    (r, r) T A Tᵀ: the estimate's own covariance for E ψ²/(E ψ')² = 1.
    weight    λ, what the optimal score must be made for.
    gram, strength: tr Ã and tr Ã^½; loss: (r, r) L with tr(W·MSE of θ̂) = tr(L·MSE of Tθ̂).
    """

    targets: Array
    whole: bool
    unit: Array
    spread: Array
    weight: float
    gram: float
    strength: float
    loss: Array


def noise_shape(
    triangle: Array, budget: float, shape: Shape = "trace", weight: ArrayLike | None = None
) -> NoiseShape:
    """The shape for RᵀR = ΣH_kᵀH_k (`triangle` R), budget s and loss tr W·MSE (identity: None)."""
    n = len(triangle)
    if as_choice(shape, get_args(Shape), "shape") == "paper" and weight is not None:
        raise InvalidInput("the paper's shape has no weight: leave one of them out.")
    root = weight_root(weight, n)
    half = substitute(triangle, root, transposed=True)
    _, strengths, right = np.linalg.svd(half, full_matrices=False)
    strength, gram = float(strengths.sum()), float((strengths**2).sum())
    whole = root.shape[1] == n
    # For W > 0 the noise is mapped back to θ̂ itself; unmapped it would break the budget.
    back = np.linalg.inv(root.T) if whole else np.eye(root.shape[1])
    targets = np.eye(n) if whole else np.asarray(root.T)
    spread = _symmetric(back @ (half.T @ half) @ back.T)
    if shape == "paper":
        unit, multiplier = n / budget * spread, n / budget
    else:
        unit = strength / budget * _symmetric(back @ ((right.T * strengths) @ right) @ back.T)
        multiplier = strength**2 / (budget * gram)
    loss = _symmetric(root @ root.T) if whole else np.eye(root.shape[1])
    return NoiseShape(targets, whole, unit, spread, multiplier, gram, strength, loss)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2
