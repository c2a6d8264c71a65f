"""Fifty air-quality sensors agree on a pollution map, and nobody learns what one of them measured.

    python examples/air_quality.py [folder for the pictures]

Each sensor stands in a garden and measures PM2.5 for some hours of a day. The city's map is

    c = θ_0 + θ_1·east + θ_2·north + θ_3·rush(hour) ,

four numbers. An hourly measurement also reveals whether its owner was barbecuing, so a sensor
releases it only with noise: Fisher information at most s per measurement, s its owner's choice.
Sensors talk to neighbours within radio range. In the end every one of them holds the best estimate
that the levels allow, as if one place had heard them all.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

import privest as pv
from privest import network
from privest.arrays import Array, Index
from privest.report.figures import new_figure, save, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SENSORS, RANGE = 50, 0.24
THETA = np.array([14.0, 5.0, -3.0, 6.0])  # µg/m³
NOISE = 2.0**2  # variance of a measurement, (µg/m³)²
TOLERANCE = 1e-9
Method = Literal["plain", "chebyshev"]
COLOURS = {"plain": "#dd8452", "chebyshev": "#4c72b0"}


def rush(hour: Array) -> Array:
    """How much of the rush hour an hour of the day has."""
    return np.exp(-(((hour - 8) / 1.5) ** 2)) + np.exp(-(((hour - 17.5) / 2.0) ** 2))


def city(rng: np.random.Generator) -> tuple[Array, network.Graph]:
    """Places of the sensors until the radio links connect them all."""
    while True:
        places = rng.random((SENSORS, 2))
        graph = network.Graph.random_geometric(places, RANGE)
        if graph.connected:
            return places, graph


def make_sensors(places: Array, rng: np.random.Generator) -> list[network.Sensor]:
    """Each with some hours of measurements and a level of its owner's choice."""
    sensors = []
    for east, north in places:
        hours = np.sort(rng.choice(24, size=rng.integers(4, 13), replace=False)).astype(float)
        H = np.column_stack(
            [
                np.ones_like(hours),
                np.full_like(hours, east),
                np.full_like(hours, north),
                rush(hours),
            ]
        )
        level = float(rng.choice([0.02, 0.1, 0.5]))  # strict, usual, lax owners
        sensors.append(network.Sensor(H, NOISE, level))
    return sensors


def rounds_against_gap(
    parts: list[network.Contribution], rng: np.random.Generator, graphs: int
) -> tuple[Array, dict[str, Array]]:
    """The same sensors on other graphs: shorter and longer range, rings with shortcuts."""
    gaps: list[float] = []
    counts: dict[Method, list[int]] = {"plain": [], "chebyshev": []}
    while len(gaps) < graphs:
        if len(gaps) % 2:
            graph = network.Graph.random_geometric(rng.random((SENSORS, 2)), rng.uniform(0.2, 0.6))
        else:
            ring = network.Graph.ring(SENSORS)
            chords = rng.integers(SENSORS, size=(rng.integers(0, 30), 2))
            chords = chords[chords[:, 0] != chords[:, 1]]
            graph = network.Graph(np.concatenate([ring.edges, chords]), SENSORS)
        if not graph.connected:
            continue
        gaps.append(spectral_gap(graph))
        for method, found in counts.items():
            result = network.consensus(parts, graph, method=method, tolerance=TOLERANCE)
            found.append(result.rounds)
    return np.array(gaps), {method: np.array(found) for method, found in counts.items()}


def spectral_gap(graph: network.Graph) -> float:
    """1 − max(|λ_2|, |λ_N|) of Metropolis weights a_ij = 1/(1 + max(d_i, d_j))."""
    i, j = graph.edges.T
    W = np.zeros((graph.agents, graph.agents))
    W[i, j] = W[j, i] = 1 / (1 + graph.degrees[graph.edges].max(axis=1))
    values = np.linalg.eigvalsh(W + np.diag(1 - W.sum(axis=1)))
    return float(1 - max(abs(values[0]), abs(values[-2])))


def private_average(graph: network.Graph, rng: np.random.Generator) -> None:
    """The plain average of one measurement per sensor at the level S_i = 0.5."""
    level, trials = 0.5, 4000
    y = THETA[0] + 4.0 * rng.standard_normal(SENSORS)
    many = np.broadcast_to(y, (trials, SENSORS))
    floor = pv.bounds.consensus_bound(level, agents=SENSORS)
    sensor = network.Sensor(np.ones((SENSORS, 1)), 1.0, level)
    found = network.average(sensor.simulate(many, rng), graph)
    error = ((found.estimates[0, :, 0] - y.mean()) ** 2).mean() / floor
    print(f"private average: squared error {error:.2f} times the floor, in {found.rounds} rounds")


def main(
    out: Path = Path("out/air_quality"), graphs: int = 60
) -> tuple[dict[str, network.Consensus], pv.Estimate]:
    """Simulate, estimate, print and draw."""
    rng = np.random.default_rng(2024)
    places, graph = city(rng)
    sensors = make_sensors(places, rng)
    # What happens inside each sensor: it reads, it adds noise, it sends. (Simulated noise.)
    releases = [sensor.simulate(sensor.model.sample(THETA, rng), rng) for sensor in sensors]
    parts = [sensor.contribution(z) for sensor, z in zip(sensors, releases)]

    central = network.fuse(sensors, releases)
    bound = pv.bound(*network.joint_model(sensors))
    methods: tuple[Method, ...] = ("chebyshev", "plain")
    results: dict[str, network.Consensus] = {
        method: network.consensus(parts, graph, method=method, tolerance=TOLERANCE, trace=True)
        for method in methods
    }
    print(f"{SENSORS} sensors, {len(graph.edges)} links, gap", end=" ")
    print(f"{spectral_gap(graph):.4f}")
    print("the map           ", THETA)
    print("efficient estimate", central.value.round(2))
    print("its standard error", bound.standard_error.round(2), "(the floor under these levels)")
    print("without privacy   ", bound.classical_error.round(2))
    for method, result in results.items():
        far = distances(result.estimates[None], central).max()
        print(
            f"{method:>9}: {result.rounds} rounds, certified to {result.certified_error:.1e}",
            end="",
        )
        print(f" standard errors; farthest agent {far:.1e}")
    shares = [np.trace(s.exposed) / np.trace(s.level.dense(s.measurements)) for s in sensors]
    print(f"an eavesdropper of all messages learns {np.mean(shares):.0%} of what the levels allow")

    private_average(graph, rng)

    save_agents(
        out / "agents.png",
        positions=places,
        edges=graph.edges,
        traces={method: result.trace for method, result in results.items()},
        central=central,
        parameter=3,
        name="rush-hour pollution",
    )
    gaps, counts = rounds_against_gap(parts, rng, graphs)
    save_rounds(out / "rounds.png", gaps=gaps, rounds=counts, tolerance=TOLERANCE)
    print(f"pictures: {out / 'agents.png'}, {out / 'rounds.png'}")
    return results, central


# --- pictures -------------------------------------------------------------------------------------


def distances(trace: Array, central: pv.Estimate) -> Array:
    """(rounds, N): how far each agent is from the efficient estimate, in standard errors."""
    half = np.linalg.cholesky(np.linalg.inv(central.covariance))
    found: Array = np.linalg.norm((trace - central.value) @ half, axis=-1)
    return found


def save_agents(
    path: Path,
    *,
    positions: Array,
    edges: Index,
    traces: Mapping[str, Array],
    central: pv.Estimate,
    parameter: int,
    name: str,
) -> None:
    """Write the figure: the map, every agent's estimate of one parameter, and the distances.

    traces: by method ("plain", "chebyshev"), (rounds + 1, N, n), NaN while an agent has no estimate
    (`consensus(..., trace=True).trace`); central: what one place that hears everyone estimates.
    """
    figure = new_figure(15.0, 4.8)
    left, middle, right = figure.subplots(1, 3)
    first = next(iter(traces))
    _draw_map(left, positions, edges, distances(traces[first], central), first)
    _draw_estimates(middle, traces[first], central, parameter, name, first)
    for method, trace in traces.items():
        _draw_distances(right, distances(trace, central), method)
    right.axhline(1.0, color="0.6", lw=0.8)
    right.set_xlabel("round")
    right.set_ylabel("distance from the efficient estimate (standard errors)")
    right.set_title("Every agent gets there", loc="left", fontsize=10)
    right.legend(fontsize=8)
    tidy(middle)
    tidy(right)
    save(figure, path)


def _draw_map(axes: Axes, positions: Array, edges: Index, far: Array, method: str) -> None:
    from matplotlib.collections import LineCollection

    lines = LineCollection(list(positions[edges]), colors="0.8", linewidths=0.8, zorder=1)
    axes.add_collection(lines)
    close = np.nan_to_num(far, nan=np.inf) <= 0.1
    # The round after which an agent stays within a tenth of a standard error.
    last_off = len(far) - 1 - (~close)[::-1].argmax(axis=0)
    arrived = np.where((~close).any(axis=0), last_off + 1, 0)
    east, north = positions.T
    dots = axes.scatter(east, north, c=arrived, cmap="viridis", s=60, zorder=2, edgecolors="white")
    bar = axes.figure.colorbar(dots, ax=axes, shrink=0.85)
    bar.set_label(f"rounds to 0.1 standard errors ({method})", fontsize=8)
    axes.set_aspect("equal")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(f"{len(positions)} sensors, {len(edges)} links", loc="left", fontsize=10)


def _draw_estimates(
    axes: Axes, trace: Array, central: pv.Estimate, parameter: int, name: str, method: str
) -> None:
    # From the round in which all agents have an estimate: earlier ones are wild.
    everyone = ~np.isnan(trace).any(axis=(1, 2))
    first = int(everyone.argmax())
    shown = max(first + 10, len(trace) // 4)
    steps = np.arange(first, shown)
    axes.plot(
        steps, trace[first:shown, :, parameter], color=COLOURS["chebyshev"], lw=0.6, alpha=0.6
    )
    value, error = central.value[parameter], central.standard_error[parameter]
    axes.axhline(value, color="black", lw=1.2, label="efficient estimate")
    axes.axhspan(value - error, value + error, color="0.5", alpha=0.15, lw=0, label="± its error")
    late = trace[first + (shown - first) // 4 : shown, :, parameter]
    low, high = np.nanmin(late), np.nanmax(late)
    room = max(high - low, 6 * error) * 0.1
    axes.set_ylim(min(low, value - 3 * error) - room, max(high, value + 3 * error) + room)
    axes.set_xlabel("round")
    axes.set_title(f"{name}, as every agent sees it ({method})", loc="left", fontsize=10)
    axes.legend(fontsize=8)


def _draw_distances(axes: Axes, far: Array, method: str) -> None:
    colour, steps = COLOURS.get(method, "#555555"), np.arange(len(far))
    unknown = np.isnan(far)
    farthest = np.where(unknown.any(axis=1), np.nan, far.max(axis=1))
    nearest = np.where(unknown, np.inf, far).min(axis=1)
    nearest = np.where(unknown.all(axis=1), np.nan, nearest)
    axes.semilogy(steps, farthest, color=colour, lw=1.8, label=f"{method}: the farthest agent")
    axes.semilogy(steps, nearest, color=colour, lw=0.8, ls=":", label=f"{method}: the nearest")


def save_rounds(path: Path, *, gaps: Array, rounds: Mapping[str, Array], tolerance: float) -> None:
    """Write the figure: certified rounds against the spectral gap, one dot a graph and method.

    Lines: ln(1/t)/gap and ln(2/t)/√(2 gap), what the error bounds say for a factor t (λ_N = −λ_2).
    """
    figure = new_figure(6.6, 4.8)
    axes = figure.subplots()
    line = np.geomspace(gaps.min(), gaps.max(), 50)
    drawn = {
        "plain": math.log(1 / tolerance) / line,
        "chebyshev": math.log(2 / tolerance) / np.sqrt(2 * line),
    }
    for method, counts in rounds.items():
        colour = COLOURS.get(method, "#555555")
        axes.loglog(gaps, counts, "o", color=colour, ms=4, alpha=0.7, label=method)
        if method in drawn:
            text = f"{method}: bound for a factor {tolerance:g}"
            axes.loglog(line, drawn[method], color=colour, lw=1.0, ls="--", label=text)
    axes.set_xlabel("spectral gap of the weights")
    axes.set_ylabel(f"rounds until all agents are certified to {tolerance:g}")
    axes.set_title("Rounds go with 1/gap, or with its root", loc="left", fontsize=10)
    tidy(axes, which="both")
    axes.legend(fontsize=8)
    save(figure, path)


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
