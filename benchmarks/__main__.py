"""Run every benchmark, print the table, write out/bench.json. Exit 1 if a limit is missed."""

import json
import platform
import sys
from pathlib import Path

import numpy as np
import scipy
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks import (
    bench_aggregate,
    bench_app,
    bench_bound,
    bench_design,
    bench_dynamics,
    bench_files,
    bench_identification,
    bench_import,
    bench_lattice,
    bench_mle,
    bench_network,
    bench_online,
    bench_pipeline,
    bench_stream,
    bench_workflow,
)

THREADS = 1
OUT = Path("out/bench.json")


def main():
    console = Console(width=170)
    table = Table(title=f"Ratios measured in one run, {THREADS} BLAS thread", title_justify="left")
    for heading in ("work", "against", "time", "its time", "ratio", "limit", ""):
        table.add_column(heading, justify="left" if heading in ("", "against") else "right")
    found = []
    with threadpool_limits(limits=THREADS), console.status("measuring ..."):
        modules = (
            bench_bound, bench_stream, bench_online, bench_mle, bench_pipeline, bench_dynamics,
            bench_identification,
            bench_network, bench_files, bench_workflow, bench_aggregate,
            bench_lattice, bench_design, bench_app, bench_import,
        )  # fmt: skip
        for module in modules:
            for row in module.rows():
                found.append(row)
                each = "" if row.items is None else f" ({row.per_item_us:.3f} µs each)"
                table.add_row(
                    row.name,
                    row.reference,
                    f"{row.seconds * 1e3:.1f} ms{each}",
                    f"{row.reference_seconds * 1e3:.1f} ms",
                    f"{row.ratio:.2f}" if row.ratio > 0.1 else f"1/{1 / row.ratio:.0f}",
                    row.limits,
                    row.verdict,
                )
    console.print(table)
    OUT.parent.mkdir(exist_ok=True)
    record = {
        "blas_threads": THREADS,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "rows": [row.to_dict() for row in found],
    }
    OUT.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    console.print(f"written: {OUT}")
    sys.exit(any(row.verdict in ("OVER", "SLOW") for row in found))


main()
