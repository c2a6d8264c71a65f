"""Linear algebra: structured PSD matrices, the Loewner order and the whitening kernel."""

from privest.linalg._psd import PSD, Blocks, Diagonal, Order, Scalar, loewner, psd, psd_blocks
from privest.linalg._root import (
    InformationRoot,
    least_squares,
    require_range,
    require_units,
    root_of_rows,
    weighted_grams,
    weighted_roots,
)
from privest.linalg._whitening import BlockWhitening as BlockWhitening
from privest.linalg._whitening import (
    Whitening,
    level_root,
    pointwise_weight,
    private_root,
    uncorrelated,
    whitening,
)
from privest.linalg.running import RunningLeastSquares as RunningLeastSquares
from privest.linalg.running import refuse_hidden as refuse_hidden
from privest.linalg.running import tall_triangle as tall_triangle
from privest.linalg.sequential import BandedRows, DenseRows, IndependentRows, Rows

__all__ = [
    "PSD", "BandedRows", "Blocks", "DenseRows", "Diagonal", "IndependentRows",
    "InformationRoot", "Order", "Rows", "Scalar", "Whitening", "least_squares", "level_root",
    "loewner", "pointwise_weight", "private_root", "psd", "psd_blocks", "require_range",
    "require_units", "root_of_rows", "uncorrelated", "weighted_grams", "weighted_roots",
    "whitening",
]  # fmt: skip
