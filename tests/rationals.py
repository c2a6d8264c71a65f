"""Positive semi-definite or not, decided in fractions."""

from fractions import Fraction


def positive(matrix):
    """Whether a matrix of fractions is positive semi-definite: LDLᵀ without rounding."""
    rows = [list(row) for row in matrix]
    for k in range(len(rows)):
        pivot = rows[k][k]
        if pivot < 0 or (pivot == 0 and any(rows[k][k:])):
            return False
        for i in range(k + 1, len(rows) if pivot else 0):
            ratio = rows[i][k] / pivot
            for j in range(k, len(rows)):
                rows[i][j] -= ratio * rows[k][j]
    return True


def below(factor, level):
    """S − LLᵀ ≥ 0 in fractions."""
    L = [[Fraction(x) for x in row] for row in factor.tolist()]
    S = [[Fraction(x) for x in row] for row in level.tolist()]
    m = len(S)
    return positive(
        [[S[i][j] - sum(a * b for a, b in zip(L[i], L[j])) for j in range(m)] for i in range(m)]
    )
