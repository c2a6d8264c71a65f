"""Six weeks of a household's hourly load whose noise remembers: what examples/meter_ar1.csv is.

What weather and time of day do not explain (guests, illness, a washing day) lasts for hours: the
noise is an AR(1), correlation 0.8 from one hour to the next. Made up, with a fixed seed.

    python examples/meter_ar1.py [FILE]     writes FILE (examples/meter_ar1.csv)
"""

import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

HOURS, CORRELATION, DEVIATION = 6 * 7 * 24, 0.8, 0.3
LOAD = {"base": 1.2, "temperature": -0.03, "evening": 0.6, "weekend": 0.15}  # kW
START = datetime(2024, 1, 1)  # a Monday


def rows() -> list[str]:
    """A line of names, then a line an hour."""
    rng = np.random.default_rng(2024)
    k = np.arange(HOURS)
    hour, evening, weekend = k % 24, (k % 24 >= 17) & (k % 24 < 22), (k // 24) % 7 >= 5
    weather = np.cumsum(rng.normal(0, 0.25, HOURS))
    temperature = (3 + 4 * np.sin(2 * np.pi * (hour - 9) / 24) + weather).round(1)
    noise = np.empty(HOURS)
    noise[0] = DEVIATION * rng.normal()
    for at in range(1, HOURS):
        new = DEVIATION * np.sqrt(1 - CORRELATION**2) * rng.normal()
        noise[at] = CORRELATION * noise[at - 1] + new
    load = LOAD["base"] + LOAD["temperature"] * temperature + LOAD["evening"] * evening
    load = (load + LOAD["weekend"] * weekend + noise).round(3)
    times = [(START + timedelta(hours=int(at))).isoformat(timespec="minutes") for at in k]
    lines = [
        f"{time},{degrees:.1f},{int(late)},{int(off)},{kilowatts:.3f}"
        for time, degrees, late, off, kilowatts in zip(times, temperature, evening, weekend, load)
    ]
    return ["time,temperature,evening,weekend,load", *lines]


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_suffix(".csv")
    target.write_text("\n".join(rows()) + "\n", encoding="utf-8")
