"""One pass over Parquet on two Dask workers, against Dask's own X.T @ X of the same columns.

`python -m benchmarks.bench_scale 20000000` writes about 1.5 GB to a temporary folder and also shows
the peak memory of the workers, which must stay below 1 GB. In the table of all: 2·10⁶ rows.
"""

import logging
import sys
import tempfile
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

from benchmarks.timing import compare
from privest.scale import fit

ROWS, PARTITION = 2_000_000, 500_000
FEATURES = [f"x{k}" for k in range(8)]
MEMORY = 10**9  # bytes a worker


def written(folder, rows):
    """Files of `PARTITION` rows: eight features and the release."""
    rng = np.random.default_rng(12)
    for k, at in enumerate(range(0, rows, PARTITION)):
        values = rng.standard_normal((min(PARTITION, rows - at), 9))
        values[:, 8] += values[:, :8].sum(axis=1)
        frame = pd.DataFrame(values, columns=[*FEATURES, "z"])
        frame.to_parquet(folder / f"{k:04}.parquet", index=False)
    return dd.read_parquet(folder)


def peak():
    """The most memory that this process ever had, in bytes (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def measured(rows, repeats):
    """The ratio of times, and the peak memory of every worker after the fits alone."""
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=MEMORY,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        frame = written(Path(folder), rows)
        lengths = [min(PARTITION, rows - at) for at in range(0, rows, PARTITION)]
        X = frame[[*FEATURES, "z"]].to_dask_array(lengths=lengths)

        def ours():
            found = fit(frame, FEATURES, level=1.0, noise=1.0, client=client)
            assert found.rows == rows

        ours()
        memory = client.run(peak)
        row = compare(
            f"scale.fit, {rows:.0e} rows of Parquet, 2 workers",
            ours,
            "Dask X.T @ X",
            lambda: client.compute(X.T @ X).result(),
            limit=1.5,
            items=rows,
            repeats=repeats,
        )
        return row, memory


def rows():
    row, memory = measured(ROWS, 5)
    assert max(memory.values()) < MEMORY
    yield row


if __name__ == "__main__":
    row, memory = measured(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS, 3)
    print(f"{row.name}: {row.seconds:.2f} s, {row.ratio:.2f} of", end=" ")
    print(f"{row.reference} ({row.reference_seconds:.2f} s)", row.limits, row.verdict)
    for worker, most in memory.items():
        print(f"{worker}: peak {most / 1e6:.0f} MB")
