"""HDBSCAN: tracemill against scikit-learn and, where installed, fast_hdbscan, in one run.

    python scripts/bench/cluster.py [--rows 10000] [--dim 256] [--program target/release/tracemill]

Needs numpy, pyarrow, scikit-learn. Every contender runs in a process of its own on the same vectors
(overlapping normal clusters on the sphere, like latents), all with the machine's threads; peak memory is
the process's own, and for the Python ones includes the interpreter and its libraries.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

SIZE = 10


def vectors(rows, dim):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, dim))
    x = centres[rng.integers(0, 40, rows)] + rng.uniform(0.3, 1.2, (rows, 1)) * rng.normal(size=(rows, dim))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def run_peer(name, folder):
    """In a process of its own: cluster, report seconds of the fit alone."""
    x = np.load(folder / "x.npy").astype(np.float64)
    if name == "scikit-learn brute":
        from sklearn.cluster import HDBSCAN

        model = HDBSCAN(min_cluster_size=SIZE, min_samples=SIZE, algorithm="brute", n_jobs=-1, copy=True)
    else:
        import fast_hdbscan

        model = fast_hdbscan.HDBSCAN(min_cluster_size=SIZE, min_samples=SIZE)
        model.fit(x[:500])  # compile
    start = time.perf_counter()
    labels = model.fit(x).labels_
    seconds = time.perf_counter() - start
    np.save(folder / "labels.npy", labels)
    print(json.dumps({"seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def measured(command):
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{command[0]} failed: {status}")
    return out, time.perf_counter() - start, usage.ru_maxrss / 1024


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=10_000)
    arguments.add_argument("--dim", type=int, default=256)
    arguments.add_argument("--program", default="target/release/tracemill")
    arguments.add_argument("--peer")
    arguments.add_argument("--folder", type=pathlib.Path)
    options = arguments.parse_args()
    if options.peer:
        return run_peer(options.peer, options.folder)

    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.metrics import adjusted_rand_score

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        x = vectors(options.rows, options.dim)
        np.save(folder / "x.npy", x)
        column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), options.dim)
        table = pa.table({"id": [str(i) for i in range(len(x))], "vector": column})
        pq.write_table(table, folder / "x.parquet")
        command = [options.program, "cluster", "--vectors", str(folder / "x.parquet")]
        command += ["--out", str(folder / "l.parquet"), "--min-cluster-size", str(SIZE)]
        _, own, mib = measured(command)
        ours = pq.read_table(folder / "l.parquet").column("label").to_numpy()
        print(f"{options.rows} x {options.dim}, min_cluster_size {SIZE}, {os.cpu_count()} cores")
        print(f"tracemill           {own:8.2f} s (whole program)   {mib:6.0f} MiB   clusters {ours.max() + 1}")
        for peer in ("scikit-learn brute", "fast_hdbscan"):
            if peer == "fast_hdbscan" and not installed("fast_hdbscan"):
                continue
            command = [sys.executable, __file__, "--peer", peer, "--folder", str(folder)]
            found = json.loads(measured(command)[0])
            labels = np.load(folder / "labels.npy")
            print(
                f"{peer:<19} {found['seconds']:8.2f} s (fit alone)       {found['mib']:6.0f} MiB   "
                f"clusters {labels.max() + 1}   time ratio {found['seconds'] / own:.2f}   "
                f"ARI with tracemill {adjusted_rand_score(ours, labels):.4f}"
            )


def installed(module):
    import importlib.util

    return importlib.util.find_spec(module) is not None


if __name__ == "__main__":
    main()
