"""The releases of a state-space system as one Gaussian, written out with numpy alone.

    x_{k+1} = A x_k + B u_k + w_k ,  y_k = C x_k + D u_k + v_k ,  x_0 = mean0 + Δδ + N(0, cov0)
    z = rows Y + N(0, I)             cov(w_k, v_k) = cross, δ anything

Everything is a linear map of the sources (x_0 − mean0 − Δδ, w_0, v_0, w_1, …) and of δ. Nothing is
recursive in a covariance, and nothing of privest is used. Two forms:

    Dense            means and covariances by one least squares problem: nothing is subtracted
    log_likelihood   by covariances, in complex numbers too: `slope` and `gradient` are complex
                     steps, dℓ = Im ℓ(X + i·h·dX)/h at h = 1e-30, without rounding of differences

A system is a mapping of arrays: A, C, Q, R, mean0, cov0, and where there are any B, D, cross,
diffuse (n, q). A, C, Q, R, B, D, cross may have a time axis.
"""

from dataclasses import dataclass

import numpy as np

STEP = 1e-30
LOG_2PI = np.log(2 * np.pi)
SYMMETRIC = ("Q", "R", "cov0")
PARAMETERS = ("A", "C", "Q", "R", "B", "D", "cross", "mean0", "cov0")


def at(matrix, k):
    """The matrix of step k."""
    return matrix[k] if matrix.ndim == 3 else matrix


@dataclass
class Law:
    """x (T n,) and y (T m,) as means + maps of the sources + responses to δ; covariance sources."""

    x: np.ndarray
    x_map: np.ndarray
    x_delta: np.ndarray
    y: np.ndarray
    y_map: np.ndarray
    y_delta: np.ndarray
    sources: list

    @property
    def covariance(self):
        """Of all sources."""
        size = sum(len(block) for block in self.sources)
        whole, end = np.zeros((size, size), dtype=self.x_map.dtype), 0
        for block in self.sources:
            own = slice(end, end := end + len(block))
            whole[own, own] = block
        return whole

    @property
    def root(self):
        """F with FFᵀ the covariance, by eigenvectors: any rank."""
        size = sum(len(block) for block in self.sources)
        whole, end = np.zeros((size, size)), 0
        for block in self.sources:
            own = slice(end, end := end + len(block))
            values, vectors = np.linalg.eigh(block)
            whole[own, own] = vectors * np.sqrt(np.maximum(values, 0.0))
        return whole


def law(system, steps, inputs=None):
    """All states and measurements of `steps` steps, as maps of the sources."""
    A, C, Q, R = (np.asarray(system[name]) for name in ("A", "C", "Q", "R"))
    n, m = A.shape[-1], C.shape[-2]
    cross = system.get("cross")
    cross = np.zeros((n, m)) if cross is None else np.asarray(cross)
    diffuse = system.get("diffuse")
    diffuse = np.zeros((n, 0)) if diffuse is None else np.asarray(diffuse)
    kind = np.result_type(*(np.asarray(value) for value in system.values() if value is not None))
    own, size = n + m, n + steps * (n + m)
    x, x_map = np.zeros((steps, n), kind), np.zeros((steps, n, size), kind)
    y, y_map = np.zeros((steps, m), kind), np.zeros((steps, m, size), kind)
    x_delta, y_delta = (np.zeros((steps, rows, diffuse.shape[1]), kind) for rows in (n, m))
    sources = [np.asarray(system["cov0"])]
    mean, moved, response = system["mean0"], np.eye(n, size, dtype=kind), diffuse
    for k in range(steps):
        x[k], x_map[k], x_delta[k] = mean, moved, response
        y[k], y_map[k], y_delta[k] = at(C, k) @ mean, at(C, k) @ moved, at(C, k) @ response
        first = n + k * own
        y_map[k, :, first + n : first + own] += np.eye(m)
        S = at(cross, k)
        sources.append(np.block([[at(Q, k), S], [S.T, at(R, k)]]))
        mean, moved, response = at(A, k) @ mean, at(A, k) @ moved, at(A, k) @ response
        moved[:, first : first + n] += np.eye(n)
        if inputs is not None and system.get("D") is not None:
            y[k] += at(np.asarray(system["D"]), k) @ inputs[k]
        if inputs is not None and system.get("B") is not None:
            mean = mean + at(np.asarray(system["B"]), k) @ inputs[k]
    flat = (steps * n, size), (steps * m, size)
    return Law(
        x.ravel(), x_map.reshape(flat[0]), x_delta.reshape(steps * n, -1),
        y.ravel(), y_map.reshape(flat[1]), y_delta.reshape(steps * m, -1), sources,
    )  # fmt: skip


def rows_shown(rows, missing):
    """Rows (r, K m) of what is shown, and which (K, m) values that is, of `rows` (K m, K m).

    missing (K, m): flags. Where S̄ = AᵀA is diagonal the other measurements of a step are shown;
    where it mixes measurements a step of which a part is missing is missing. What is missing is
    left out of later rows, too.
    """
    level = rows.T @ rows
    if np.any(level != np.diag(level.diagonal())):
        missing = np.repeat(missing.any(axis=1), missing.shape[1]).reshape(missing.shape)
    gone = missing.ravel()
    return np.where(gone, 0.0, rows)[~gone], ~missing


class Dense:
    """The Gaussian of all states given releases: values (r,) of the rows shown (r, K m).

    `steps` counts the states, K or more: those after the last release are predictions. `order` (r,)
    is the step of each row.
    """

    def __init__(self, system, rows, shown, values, inputs=None, steps=None):
        count, m = shown.shape
        self.n = np.asarray(system["A"]).shape[-1]
        self.steps = steps or count
        self.law = law(system, self.steps, inputs)
        self.order = np.repeat(np.arange(count), m)[shown.ravel()]
        used = slice(0, count * m)
        root = self.law.root
        self.states = np.hstack([self.law.x_map @ root, self.law.x_delta])
        self.shown = np.hstack([rows @ self.law.y_map[used] @ root, rows @ self.law.y_delta[used]])
        self.fresh = np.asarray(values) - rows @ self.law.y[used]
        self.q = self.law.x_delta.shape[1]

    def _solved(self, last):
        """R and the solution of min ‖[M X; I 0](s, δ) − (fresh, 0)‖, of steps before `last`."""
        some = self.order < last
        size = self.shown.shape[1]
        prior = np.eye(size - self.q, size)
        Q, R = np.linalg.qr(np.vstack([self.shown[some], prior]))
        right = np.concatenate([self.fresh[some], np.zeros(len(prior))])
        pulled = Q.T @ right
        return R, pulled, right @ right - pulled @ pulled

    def condition(self, last):
        """Of what shows δ, from 1 to ∞, scaled; 1 without δ."""
        if not self.q:
            return 1.0
        if (self.order < last).sum() < self.q:
            return np.inf
        R, _, _ = self._solved(last)
        end = R[-self.q :, -self.q :]
        size = np.sqrt(np.square(end).sum(axis=0))
        if not size.all():
            return np.inf
        return float(np.linalg.cond(end / size))

    def states_after(self, last):
        """Means (steps, n) and covariances (steps, n, n) given the releases of steps < last."""
        R, pulled, _ = self._solved(last)
        half = np.linalg.solve(R.T, self.states.T).T
        mean = self.law.x + half @ pulled
        parts = half.reshape(self.steps, self.n, -1)
        return mean.reshape(self.steps, self.n), parts @ parts.swapaxes(1, 2)

    @property
    def size(self):
        """The largest deviation of a state before any release; that of δ counts as 1."""
        return max(1e-3, float(np.sqrt(np.square(self.states).sum(axis=1)).max()))

    @property
    def log_likelihood(self):
        R, _, squares = self._solved(self.steps)
        heights = np.log(np.abs(R.diagonal())).sum()
        return -0.5 * (len(self.fresh) * LOG_2PI + squares) - heights

    @property
    def innovations(self):
        """ζ = L⁻¹(z − E z), LLᵀ = cov z, in the order of the rows; without δ."""
        V = self.shown @ self.shown.T + np.eye(len(self.shown))
        return np.linalg.solve(np.linalg.cholesky(V), self.fresh)


def log_likelihood(system, rows, values, inputs=None):
    """ℓ of values (…, r) of the rows (r, K m), by covariances; complex where the system is.

    With δ the limit of vague priors: −½ log|XᵀV⁻¹X| more, and δ at its estimate.
    """
    m = np.asarray(system["C"]).shape[-2]
    found = law(system, rows.shape[1] // m, inputs)
    shown, X = rows @ found.y_map, rows @ found.y_delta
    V = shown @ found.covariance @ shown.T + np.eye(len(rows))
    S = X.T @ np.linalg.solve(V, X)
    total = 0.0
    for own in np.atleast_2d(values):
        fresh = own - rows @ found.y
        solved = np.linalg.solve(V, fresh)
        pull = X.T @ solved
        total -= 0.5 * (len(rows) * LOG_2PI + log_det(V) + log_det(S))
        total -= 0.5 * (fresh @ solved - pull @ np.linalg.solve(S, pull))
    return total


def log_det(matrix):
    if not len(matrix):
        return 0.0
    sign, size = np.linalg.slogdet(matrix)
    return size + (np.log(sign) if np.iscomplexobj(sign) else 0.0)


def slope(system, name, direction, rows, values, inputs=None):
    """dℓ along one direction of one matrix, to rounding."""
    moved = dict(system) | {name: system[name] + 1j * STEP * direction}
    return log_likelihood(moved, rows, values, inputs).imag / STEP


def gradient(system, rows, values, inputs=None, names=PARAMETERS):
    """∂ℓ by every entry of the matrices named; of covariances G with dℓ = tr GᵀdQ, G symmetric."""
    found = {}
    for name in names:
        if system.get(name) is None:
            continue
        own = np.asarray(system[name], dtype=float)
        result = np.zeros(own.shape)
        for place in np.ndindex(own.shape):
            direction = np.zeros(own.shape)
            direction[place] = 1.0
            if name in SYMMETRIC:
                direction = (direction + direction.swapaxes(-1, -2)) / 2
            result[place] = slope(system, name, direction, rows, values, inputs)
        found[name] = result
    return found
