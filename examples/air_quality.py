"""Fifty air-quality sensors agree on a pollution map, and nobody learns what one of them measured.

    python examples/air_quality.py [folder for the pictures]

Each sensor stands in a garden and measures PM2.5 for some hours of a day. The city's map is

    c = θ_0 + θ_1·east + θ_2·north + θ_3·rush(hour) ,

four numbers. An hourly reading also tells whether its owner was barbecuing, so a sensor shows it
only through noise: Fisher information at most s per reading, s its owner's choice. Sensors talk to
neighbours within radio range. In the end every one of them holds the best estimate that the levels
allow, as if one place had heard them all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import privest as pv
from privest import network
from privest.arrays import Array
from privest.network._averaging import Method
from privest.report import distances, save_agents, save_rounds

SENSORS, RANGE = 50, 0.24
THETA = np.array([14.0, 5.0, -3.0, 6.0])  # µg/m³
NOISE = 2.0**2  # variance of a reading, (µg/m³)²
TOLERANCE = 1e-9


def rush(hour: Array) -> Array:
    """How much of the rush hour an hour of the day has."""
    return np.exp(-(((hour - 8) / 1.5) ** 2)) + np.exp(-(((hour - 17.5) / 2.0) ** 2))


def city(rng: np.random.Generator) -> tuple[Array, network.Graph]:
    """Places of the sensors until the radio links connect them all."""
    while True:
        places = rng.random((SENSORS, 2))
        graph = network.random_geometric(places, RANGE)
        if graph.connected:
            return places, graph


def make_sensors(places: Array, rng: np.random.Generator) -> list[network.Sensor]:
    """Each with some hours of readings and a level of its owner's choice."""
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
        level = pv.PrivacyLevel(float(rng.choice([0.02, 0.1, 0.5])))  # strict, usual, lax owners
        sensors.append(network.Sensor(H, pv.noise.Gaussian(cov=NOISE), level))
    return sensors


def rounds_against_gap(
    parts: list[network.Contribution], rng: np.random.Generator, graphs: int
) -> tuple[Array, dict[str, Array]]:
    """The same sensors on other graphs: shorter and longer range, rings with shortcuts."""
    gaps: list[float] = []
    counts: dict[Method, list[int]] = {"plain": [], "chebyshev": []}
    while len(gaps) < graphs:
        if len(gaps) % 2:
            graph = network.random_geometric(rng.random((SENSORS, 2)), rng.uniform(0.2, 0.6))
        else:
            ring = network.ring(SENSORS)
            chords = rng.integers(SENSORS, size=(rng.integers(0, 30), 2))
            chords = chords[chords[:, 0] != chords[:, 1]]
            graph = network.Graph(np.concatenate([ring.edges, chords]), SENSORS)
        if not graph.connected:
            continue
        weights = network.metropolis(graph)
        gaps.append(network.spectrum_of(weights.matrix).gap)
        for method, found in counts.items():
            result = network.consensus(parts, weights, method=method, tolerance=TOLERANCE)
            found.append(result.rounds)
    return np.array(gaps), {method: np.array(found) for method, found in counts.items()}


def compare_averages(weights: network.Weights, rng: np.random.Generator) -> None:
    """The plain average of one reading a sensor, by our method and by those of the literature.

    All but the last are set so that the messages carry the same information S_i = 0.5 about y_i.
    """
    level, trials = 0.5, 4000
    y = THETA[0] + 4.0 * rng.standard_normal(SENSORS)
    many = np.broadcast_to(y, (trials, SENSORS))
    floor = pv.bounds.consensus_bound(pv.PrivacyLevel(level), agents=SENSORS)
    ours = network.private_average(many, pv.PrivacyLevel(level), weights, rng)
    rows = [("noise once (attains the floor)", ours.values, 1.0)]
    for decay, kept in ((0.5, 1.0), (0.9, 0.5)):
        probe = network.DecayingNoise(1.0, decay, kept).information(1)[0]
        noisy = network.DecayingNoise(np.sqrt(probe / level), decay, kept)
        text = f"decaying Laplace noise, q = {decay}, g = {kept}"
        rows.append((text, noisy.simulate(many, weights, rng, 400), 1.0))
    damped = network.DampedNoise(level**-0.5, 0.9)
    ratio = damped.information(1, 100)[0] / level
    rows.append(("damped noise, 100 rounds", damped.simulate(many, weights, rng, 100), ratio))
    print("private average:                          error / floor   information / level")
    for text, values, information in rows:
        error = ((values[:, 0] - y.mean()) ** 2).mean() / floor
        print(f"  {text:<40}{error:13.2f}   {information:19.3g}")


def main(
    out: Path = Path("out/air_quality"), graphs: int = 60
) -> tuple[dict[str, network.ConsensusResult], network.Fused]:
    """Simulate, estimate, print and draw."""
    rng = np.random.default_rng(2024)
    places, graph = city(rng)
    sensors = make_sensors(places, rng)
    # What happens inside each sensor: it reads, it adds noise, it sends. (Simulated noise.)
    releases = [sensor.simulate(sensor.model.simulate(THETA, rng), rng) for sensor in sensors]
    parts = [sensor.contribution(z) for sensor, z in zip(sensors, releases)]

    central = network.fuse(sensors, releases)
    bound = network.fusion_bound(sensors)
    weights = network.metropolis(graph)
    methods: tuple[Method, ...] = ("chebyshev", "plain")
    results: dict[str, network.ConsensusResult] = {
        method: network.consensus(parts, weights, method=method, tolerance=TOLERANCE, trace=True)
        for method in methods
    }
    print(f"{SENSORS} sensors, {len(graph.edges)} links, gap", end=" ")
    print(f"{network.spectrum_of(weights.matrix).gap:.4f}")
    print("the map           ", THETA)
    print("efficient estimate", central.estimate.round(2))
    print("its standard error", bound.standard_error.round(2), "(the floor under these levels)")
    print("without privacy   ", np.sqrt(np.diagonal(bound.classical)).round(2))
    for method, result in results.items():
        far = distances(result.estimates[None], central).max()
        print(
            f"{method:>9}: {result.rounds} rounds, certified to {result.certified_error:.1e}",
            end="",
        )
        print(f" standard errors; farthest agent {far:.1e}")
    shares = [np.trace(s.exposed) / np.trace(s.level.dense(s.readings)) for s in sensors]
    print(f"an eavesdropper of all messages learns {np.mean(shares):.0%} of what the levels allow")

    compare_averages(weights, rng)

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


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
