"""The paper's Algorithms 1-3, literally: slow, dense, with inverses, to compare with.

Every line carries the symbol of the paper. The recursions are generators. One step k has H_k
(m_k, n), Σ_w,k (m_k, m_k), S_k (m_k, m_k) and U_k (M_{k−1}, m_k).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array


@dataclass(frozen=True, eq=False)
class Step:
    """The public data of one measurement: H_k, Σ_w,k, S_k and U_k."""

    H: Array
    Sigma: Array
    S: Array
    U: Array


@dataclass(frozen=True, eq=False)
class InformationStep:
    """Step k of `algo:recursive_PI`, by the names of the paper."""

    PI: Array
    Phi: Array
    Psi: Array
    Lambda: Array
    G: Array
    B: Array
    S_Sigma: Array
    S: Array


def recursive_information(steps: Sequence[Step]) -> Iterator[InformationStep]:
    """`algo:recursive_PI`: the privacy-preserving Fisher information PI_k, k = 1, 2, …"""
    first = steps[0]
    eye = np.eye(len(first.S))
    B = np.linalg.inv(eye + first.S @ first.Sigma)
    S_Delta = np.linalg.inv(first.S + np.linalg.inv(first.Sigma))
    PI = first.H.T @ B @ first.S @ first.H
    H_bar = first.H
    # The general step with M_0 = 0 gives the same; these are its symbols at k = 1.
    Lambda = first.S @ np.linalg.inv(eye + first.Sigma @ first.S)
    yield InformationStep(PI, eye, first.Sigma, Lambda, first.H.T, B, first.Sigma, first.S)
    for step in steps[1:]:
        eye = np.eye(len(step.S))
        H_bar = np.concatenate([H_bar, step.H])
        Phi = np.concatenate([step.U @ np.linalg.pinv(step.S), eye])
        B_previous = scipy.linalg.block_diag(B, eye)
        Gamma = B_previous @ Phi
        S_Sigma = scipy.linalg.block_diag(S_Delta, step.Sigma)
        Psi = S_Sigma @ Phi
        Lambda = step.S @ np.linalg.inv(eye + Phi.T @ S_Sigma @ Phi @ step.S)
        S_Delta = S_Sigma - Psi @ Lambda @ Psi.T
        G = H_bar.T @ Gamma
        B = B_previous - Gamma @ Lambda @ Psi.T
        PI = PI + G @ Lambda @ G.T
        yield InformationStep(PI, Phi, Psi, Lambda, G, B, S_Sigma, step.S)


def recursive_bound(information: Iterable[InformationStep], k0: int) -> Iterator[Array]:
    """`algo:recursive_PPCR`: Σ_PPCR,k for k = k0, k0 + 1, … (counted from 1; PI_k0 invertible)."""
    bound: Array = np.zeros((0, 0))
    for k, step in enumerate(information, start=1):
        if k < k0:
            continue
        if k == k0:
            bound = np.linalg.inv(step.PI)
        else:
            eye = np.eye(len(step.S))
            Xi = eye + (step.Phi.T @ step.S_Sigma @ step.Phi + step.G.T @ bound @ step.G) @ step.S
            bound = bound - bound @ step.G @ step.S @ np.linalg.inv(Xi) @ step.G.T @ bound
        yield bound


def private_rls(
    steps: Sequence[Step],
    information: Iterable[InformationStep],
    bounds: Iterable[Array],
    z: Sequence[Array],
    k0: int,
) -> Iterator[Array]:
    """Phase 2 of `algo:PP_RLS`: θ̂_k for k = k0, k0 + 1, … from the releases alone."""
    zeta: Array = np.zeros(0)
    H_bar = np.zeros((0, steps[0].H.shape[1]))
    estimate: Array = np.zeros(0)
    from_k0 = iter(bounds)
    for k, (step, info, release) in enumerate(zip(steps, information, z), start=1):
        H_bar = np.concatenate([H_bar, step.H])
        zeta = np.concatenate([zeta, np.zeros(len(step.S))]) + info.Phi @ release
        if k < k0:
            continue
        bound = next(from_k0)
        if k == k0:
            estimate = bound @ H_bar.T @ info.B @ zeta
        else:
            expected = info.Lambda @ (info.Psi.T @ zeta + info.G.T @ estimate)
            estimate = estimate + bound @ info.G @ (release - expected)
        yield estimate
