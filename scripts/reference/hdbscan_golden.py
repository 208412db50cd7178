"""Writes tests/golden/cluster/*.json: small data sets with the results of scikit-learn, SciPy and
Python hdbscan. Needs numpy, scipy, scikit-learn and hdbscan; run from the repository root.

Conventions: scikit-learn counts the point itself in min_samples, Python hdbscan does not, so that it
gets one less. The weight of the spanning tree is SciPy's over the dense mutual reachability matrix.
Zeros would be missing edges to SciPy; they are raised to 1e-300, which adds nothing.
Outlier scores that Python hdbscan leaves undefined (NaN: the densest part is infinitely dense) are
written as null.
"""

import json
import math
import pathlib
from importlib.metadata import version

import hdbscan
import numpy as np
import sklearn
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.cluster import HDBSCAN

OUT = pathlib.Path("tests/golden/cluster")


def mixture(rng, n, dim, centres, spread, noise=0.0):
    c = rng.normal(size=(centres, dim))
    x = c[rng.integers(0, centres, n)] + spread * rng.normal(size=(n, dim))
    far = rng.random(n) < noise
    x[far] = rng.normal(size=(far.sum(), dim)) * 1.5
    return x


def datasets():
    rng = np.random.default_rng(7)
    # Equally far apart, so that separated means separated whatever the draw.
    separated = 12.0 * np.eye(8)[rng.integers(0, 5, 300)] + rng.normal(size=(300, 8))
    yield "separated", separated, dict(min_cluster_size=10)
    overlapping = mixture(rng, 500, 8, 6, 0.4, 0.1)
    yield "overlapping", overlapping, dict(min_cluster_size=8)
    yield "leaf", overlapping, dict(min_cluster_size=5, cluster_selection_method="leaf")
    yield "overlapping_min_samples", mixture(rng, 400, 6, 5, 0.4, 0.1), dict(min_cluster_size=10, min_samples=4)
    density = np.concatenate(
        [rng.standard_t(3, size=(150, 2)) * s + c for s, c in ((0.1, (0, 0)), (0.5, (4, 0)), (1.5, (0, 9)))]
    )
    yield "densities", density, dict(min_cluster_size=12)
    yield "single", rng.normal(size=(120, 4)), dict(min_cluster_size=6, allow_single_cluster=True)
    points = np.concatenate([mixture(rng, 150, 3, 3, 0.2), np.repeat(rng.normal(size=(4, 3)) * 3, (20, 12, 6, 3), axis=0)])
    yield "duplicates", points[rng.permutation(len(points))], dict(min_cluster_size=8)
    # Sentence-like latents: on a sphere, a shared direction, topics in nested groups.
    shared = rng.normal(size=48)
    topics = shared + 0.9 * rng.normal(size=(4, 1, 48)) + 0.5 * rng.normal(size=(4, 3, 48))
    pick = rng.integers(0, 12, 420)
    latents = topics.reshape(12, 48)[pick] + (0.2 + 0.6 * rng.random((420, 1))) * rng.normal(size=(420, 48))
    yield "latents", latents / np.linalg.norm(latents, axis=1, keepdims=True), dict(min_cluster_size=5)


def reference(x, settings):
    samples = settings.get("min_samples") or settings["min_cluster_size"]
    found = HDBSCAN(algorithm="brute", copy=True, **settings).fit(x)
    distance = cdist(x, x)
    core = np.sort(distance, axis=1)[:, samples - 1]
    reach = np.maximum(np.maximum(core[:, None], core[None, :]), distance)
    upper = np.triu_indices(len(x), 1)
    graph = csr_array((np.maximum(reach[upper], 1e-300), upper), shape=reach.shape)
    scores = hdbscan.HDBSCAN(
        min_cluster_size=settings["min_cluster_size"], min_samples=samples - 1, algorithm="generic"
    ).fit(x).outlier_scores_
    return {
        "labels": found.labels_.tolist(),
        "probabilities": [round(float(p), 9) for p in found.probabilities_],
        "outlier_scores": [None if math.isnan(s) else round(float(s), 9) for s in scores],
        "tree_weight": float(minimum_spanning_tree(graph).sum()),
    }


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name, x, settings in datasets():
        x = np.round(x, 4).astype(np.float32)
        result = {
            "source": f"scikit-learn {sklearn.__version__}, hdbscan {version('hdbscan')}",
            "settings": settings,
            "dim": x.shape[1],
            "data": [float(str(v)) for v in x.ravel()],
            **reference(x.astype(np.float64), settings),
        }
        (OUT / f"{name}.json").write_text(json.dumps(result, separators=(",", ":")) + "\n")
        labels = np.array(result["labels"])
        print(name, x.shape, "clusters", labels.max() + 1, "noise", int((labels < 0).sum()))


if __name__ == "__main__":
    main()
