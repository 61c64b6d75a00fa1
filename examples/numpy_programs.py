"""Five NumPy programs as their authors would write them, unaware of any compiler.

python examples/numpy_programs.py       # each in NumPy and compiled: equal, and how much faster
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

Program = tuple[str, Callable, tuple]


# ---- options: prices and sensitivities of Black and Scholes ---------------------------------------------------------


def normal_pdf(x):
    return np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)


def normal_cdf(x):
    """Abramowitz and Stegun, 26.2.17."""
    k = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    coefficients = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    series = np.zeros_like(x)
    for coefficient in reversed(coefficients):
        series = k * (coefficient + series)
    upper = 1.0 - normal_pdf(x) * series
    return np.where(x >= 0, upper, 1.0 - upper)


def black_scholes(spot, strike, years, rate, volatility):
    root = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / root
    d2 = d1 - root
    discount = np.exp(-rate * years)
    call = spot * normal_cdf(d1) - strike * discount * normal_cdf(d2)
    put = call - spot + strike * discount
    greeks = {
        "delta": normal_cdf(d1),
        "gamma": normal_pdf(d1) / (spot * root),
        "vega": spot * normal_pdf(d1) * np.sqrt(years),
    }
    return call, put, greeks


# ---- n bodies under gravity, leapfrog -------------------------------------------------------------------------------


def accelerations(positions, masses, softening):
    separation = positions[np.newaxis, :, :] - positions[:, np.newaxis, :]
    distance_squared = (separation**2).sum(axis=-1) + softening**2
    weight = masses / distance_squared**1.5
    return (weight[:, :, np.newaxis] * separation).sum(axis=1)


def n_body(positions, velocities, masses, steps=10, dt=0.01, softening=0.1):
    positions, velocities = positions.copy(), velocities.copy()
    acceleration = accelerations(positions, masses, softening)
    for _ in range(steps):
        velocities += 0.5 * dt * acceleration
        positions += dt * velocities
        acceleration = accelerations(positions, masses, softening)
        velocities += 0.5 * dt * acceleration
    kinetic = 0.5 * (masses * (velocities**2).sum(axis=1)).sum()
    return positions, velocities, kinetic


# ---- k-means --------------------------------------------------------------------------------------------------------


def assign(points, centers):
    distances = (
        (points**2).sum(axis=1)[:, np.newaxis] - 2 * points @ centers.T + (centers**2).sum(axis=1)[np.newaxis, :]
    )
    labels = np.argmin(distances, axis=1)
    return labels, distances.min(axis=1)


def k_means(points, centers, rounds=10):
    k = len(centers)
    for _ in range(rounds):
        labels, _ = assign(points, centers)
        member = labels[:, np.newaxis] == np.arange(k)[np.newaxis, :]
        counts = member.sum(axis=0)
        sums = member.astype(points.dtype).T @ points
        moved = sums / np.maximum(counts, 1)[:, np.newaxis]
        centers = np.where(counts[:, np.newaxis] > 0, moved, centers)
    labels, distances = assign(points, centers)
    return centers, labels, np.maximum(distances, 0).mean()


# ---- heat in a plate, explicit five-point stencil -------------------------------------------------------------------


def laplacian(u):
    return u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]


def heat(plate, conductivity, steps=20, dt=0.1):
    u = plate.copy()
    history = []
    for step in range(steps):
        u[1:-1, 1:-1] += dt * conductivity[1:-1, 1:-1] * laplacian(u)
        u[0, :] = u[1, :]  # insulated above and below
        u[-1, :] = u[-2, :]
        u[:, 0] = 1.0  # heated on the left, cooled on the right
        u[:, -1] = 0.0
        if step % 5 == 4:
            history.append(u.mean())
    return u, np.array(history)


# ---- softmax regression by gradient descent -------------------------------------------------------------------------


def log_softmax(scores):
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def softmax_regression(features, labels, classes=10, rounds=10, rate=0.5, decay=1e-3):
    count, width = features.shape
    weights = np.zeros((width, classes))
    bias = np.zeros(classes)
    target = (labels[:, np.newaxis] == np.arange(classes)).astype(features.dtype)
    losses = []
    for _ in range(rounds):
        log_probabilities = log_softmax(features @ weights + bias)
        losses.append(-(target * log_probabilities).sum() / count + 0.5 * decay * (weights**2).sum())
        error = (np.exp(log_probabilities) - target) / count
        weights = weights - rate * (features.T @ error + decay * weights)
        bias = bias - rate * error.sum(axis=0)
    accuracy = (np.argmax(features @ weights + bias, axis=1) == labels).mean()
    return weights, bias, np.array(losses), accuracy


def programs() -> Iterator[Program]:
    rng = np.random.default_rng(0)
    n = 100_000
    prices = (rng.uniform(10, 100, n), rng.uniform(10, 100, n), rng.uniform(0.1, 2, n))
    yield "Black-Scholes", black_scholes, (*prices, 0.02, 0.3)
    yield (
        "n-body",
        n_body,
        (rng.standard_normal((256, 3)), 0.1 * rng.standard_normal((256, 3)), rng.uniform(0.1, 1, 256)),
    )
    points = rng.standard_normal((20_000, 8)) + 3 * rng.integers(0, 4, (20_000, 1))
    yield "k-means", k_means, (points, points[:16].copy())
    yield "heat", heat, (rng.random((256, 256)), rng.uniform(0.5, 1, (256, 256)))
    features = rng.standard_normal((5_000, 64))
    yield "softmax regression", softmax_regression, (features, rng.integers(0, 10, 5_000))


def main() -> None:
    import time

    import cdynamo

    def least(function, args):
        times = []
        for _ in range(7):
            start = time.perf_counter()
            function(*args)
            times.append(time.perf_counter() - start)
        return min(times)

    for name, function, args in programs():
        compiled = cdynamo.optimize(function)
        start = time.perf_counter()
        compiled(*args)
        first = time.perf_counter() - start
        numpy, ours = least(function, args), least(compiled, args)
        print(
            f"{name:20s} NumPy {numpy * 1e3:8.2f} ms   compiled {ours * 1e3:8.2f} ms   {numpy / ours:5.2f}x   "
            f"first call {first * 1e3:6.1f} ms   {cdynamo.counters()['graph_breaks']} graph breaks so far"
        )


if __name__ == "__main__":
    main()
