"""tracemill's policies beside TRL, plain PyTorch and transformers: the same model, rows and settings, alternating.

    cargo build --release --workspace --example policy_bench --bin tracemill
    python3 scripts/bench/policy.py --peer-python /tmp/venv/bin/python --model /tmp/smollm2 --data /tmp/rows.jsonl

`policy_trl.py` says how to make the environment, the model's folder and the rows. Each round runs both sides once, each in
a process of its own; step times are medians over the steps of all rounds, the first of each process left out. Ratios are
tracemill ÷ peer: below 1 tracemill is faster or smaller. A table goes to standard output.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PAIRS = {
    "sft": ("sft", ["sft", "torch-sft"]),
    "grpo": ("grpo", ["grpo"]),
    "decode": ("decode", ["decode"]),
}
NAMES = {"sft": "TRL SFTTrainer", "torch-sft": "PyTorch loop", "grpo": "TRL GRPOTrainer", "decode": "transformers generate"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--bench", default=str(HERE.parents[1] / "target/release/examples/policy_bench"))
    parser.add_argument("--model", required=True, help="a Hugging Face folder, read by both sides")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--modes", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-length", type=int, default=304, help="longer rows are left out on both sides")
    return parser.parse_args()


def run(command, threads):
    env = {**os.environ, "RAYON_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours(args, rows, mode):
    def call(steps, batch):
        return run([args.bench, args.model, str(rows), mode, str(steps), str(batch)], args.threads)
    if mode == "decode":
        results = {batch: call(1, batch) for batch in (1, 16)}
        return {f"48 tokens × {b}, s": [r["seconds"]] for b, r in results.items()} | {
            "peak MiB": [max(r["peak_rss_mb"] for r in results.values())]}
    result = call(args.steps, 4 if mode == "grpo" else 8)
    return {"step s": result["step_s"][1:], "peak MiB": [result["peak_rss_mb"]],
            **({"generation s": result["generation_s"][1:]} if mode == "grpo" else {})}


def peer(args, rows, mode):
    result = run([args.peer_python, str(HERE / "policy_trl.py"), "--mode", mode, "--model", args.model, "--data",
                  str(rows), "--steps", str(3 if mode == "decode" else args.steps), "--skip", "1", "--threads",
                  str(args.threads), "--batch-size", "8", "--fixed-length"], args.threads)
    if mode == "decode":
        return {f"48 tokens × {b}, s": result[f"batch_{b}"]["seconds"] for b in (1, 16)} | {
            "peak MiB": [result["peak_rss_mb"]]}
    return {"step s": result["step_s"][1:], "peak MiB": [result["peak_rss_mb"]],
            **({"generation s": [result["generation_s_mean"]]} if mode == "grpo" else {})}


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        rows = pathlib.Path(folder, "rows.jsonl")
        kept = [line for line in args.data.read_text().splitlines()
                if (row := json.loads(line)) and len(row["prompt_ids"]) + len(row["completion_ids"]) <= args.max_length]
        rows.write_text("\n".join(kept) + "\n")
        print("| job | peer | measure | tracemill | peer | ratio |\n|---|---|---|---|---|---|")
        for name in args.modes:
            mode, peers = PAIRS[name]
            found = {}
            for _ in range(args.rounds):
                for side, values in [("", ours(args, rows, mode)), *((p, peer(args, rows, p)) for p in peers)]:
                    for measure, numbers in values.items():
                        found.setdefault((side, measure), []).extend(numbers)
            for side in peers:
                for measure in [m for s, m in found if s == side]:
                    a, b = (statistics.median(found[key]) for key in [("", measure), (side, measure)])
                    print(f"| {name} | {NAMES[side]} | {measure} | {a:.4g} | {b:.4g} | {a / b:.2f} |", flush=True)


if __name__ == "__main__":
    main()
