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

SIZE = 10


def write_vectors(folder, rows, dim):
    """In a process of its own: a child's peak memory counts from what its parent held."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(40, dim))
    x = centres[rng.integers(0, 40, rows)] + rng.uniform(0.3, 1.2, (rows, 1)) * rng.normal(size=(rows, dim))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    np.save(folder / "x.npy", x)
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), dim)
    pq.write_table(pa.table({"id": [str(i) for i in range(rows)], "vector": column}), folder / "x.parquet")


def agreement(folder):
    import numpy as np
    import pyarrow.parquet as pq
    from sklearn.metrics import adjusted_rand_score

    ours = pq.read_table(folder / "l.parquet").column("label").to_numpy()
    theirs = np.load(folder / "labels.npy")
    print(json.dumps({"ari": adjusted_rand_score(ours, theirs), "clusters": [int(ours.max() + 1), int(theirs.max() + 1)]}))


def run_peer(name, folder):
    """In a process of its own: cluster, report seconds of the fit alone."""
    import numpy as np

    x = np.load(folder / "x.npy").astype(np.float64)
    if name == "scikit-learn brute":
        from sklearn.cluster import HDBSCAN

        model = HDBSCAN(min_cluster_size=SIZE, min_samples=SIZE, algorithm="brute", n_jobs=-1, copy=True)
    else:
        import fast_hdbscan

        model = fast_hdbscan.HDBSCAN(min_cluster_size=SIZE, min_samples=SIZE)
        model.fit(x[:500].copy())  # compile
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
    if options.peer == "write":
        return write_vectors(options.folder, options.rows, options.dim)
    if options.peer == "compare":
        return agreement(options.folder)
    if options.peer:
        return run_peer(options.peer, options.folder)

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def own(task):
            shape = ["--rows", str(options.rows), "--dim", str(options.dim)]
            return measured([sys.executable, __file__, "--peer", task, "--folder", name, *shape])[0]

        own("write")
        command = [options.program, "cluster", "--vectors", str(folder / "x.parquet")]
        command += ["--out", str(folder / "l.parquet"), "--min-cluster-size", str(SIZE)]
        runs = [measured(command) for _ in range(3)]
        seconds, mib = min(run[1] for run in runs), max(run[2] for run in runs)
        print(f"{options.rows} x {options.dim}, min_cluster_size {SIZE}, {os.cpu_count()} cores, best of 3")
        print(f"tracemill           {seconds:8.2f} s (whole program)   {mib:6.0f} MiB")
        for peer in ("scikit-learn brute", "fast_hdbscan"):
            if peer == "fast_hdbscan" and not installed("fast_hdbscan"):
                continue
            runs = [json.loads(own(peer)) for _ in range(3)]
            theirs, mib = min(run["seconds"] for run in runs), max(run["mib"] for run in runs)
            found = json.loads(own("compare"))
            print(
                f"{peer:<19} {theirs:8.2f} s (fit alone)       {mib:6.0f} MiB   "
                f"time ratio {theirs / seconds:.2f}   ARI {found['ari']:.4f}   clusters {found['clusters']}"
            )


def installed(module):
    import importlib.util

    return importlib.util.find_spec(module) is not None


if __name__ == "__main__":
    main()
