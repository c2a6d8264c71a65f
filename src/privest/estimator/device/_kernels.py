"""CUDA text as compilers take it: what `paper._counter` reads its generator by."""

from __future__ import annotations

from pathlib import Path


def cuda_text(path: Path) -> str:
    """A file of CUDA text without its remarks: compilers want plain letters."""
    lines = path.read_text("utf-8").splitlines()
    return "\n".join(line.split("//")[0].rstrip() for line in lines) + "\n"
