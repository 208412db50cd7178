"""PyTorch's time for one training step of the multi-view encoder: the peer of `step` in
models/benches/encoder.rs (3 x (3072 -> 256 -> 256), six predictors, three decoders, batch 512, CPU).

    python scripts/bench/encoder_torch.py [seconds]
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

PAIRS = [(p, q) for p in range(3) for q in range(3) if p != q]


def mlp(*widths, dropout=0.0, norm=False):
    a, b, c = widths
    layers = [nn.Linear(a, b), nn.GELU(), nn.Dropout(dropout), nn.Linear(b, c)]
    return nn.Sequential(*layers, *([nn.LayerNorm(c)] if norm else []))


def main(seconds):
    torch.manual_seed(0)
    heads = nn.ModuleList(mlp(3072, 256, 256, dropout=0.05, norm=True) for _ in range(3))
    predictors = nn.ModuleList(mlp(256, 128, 256) for _ in PAIRS)
    decoders = nn.ModuleList(nn.Linear(256, 3072) for _ in range(3))
    modules = nn.ModuleList([heads, predictors, decoders])
    optimizer = torch.optim.AdamW(modules.parameters(), lr=1e-3, weight_decay=0.01)
    x = [torch.rand(512, 3072) * 2 - 1 for _ in range(3)]
    own = torch.eye(512, dtype=torch.bool)

    def step():
        optimizer.zero_grad()
        z = [head(v) for head, v in zip(heads, x)]
        unit = [F.normalize(v, dim=1) for v in z]
        con = pred = rec = 0.0
        for (p, q), predictor in zip(PAIRS, predictors):
            logits = unit[p] @ unit[q].T / 0.1
            others = logits.masked_fill(own, float("-inf"))
            con = con + (torch.logsumexp(others, 1) - logits.diagonal()).mean() / 6
            pred = pred + (predictor(unit[p]) - unit[q]).pow(2).sum(1).mean() / 6
        for v in range(3):
            rec = rec + (decoders[v](z[v]) - F.normalize(x[v], dim=1)).pow(2).sum(1).mean() / 3
        (con + 0.1 * pred + 0.05 * rec).backward()
        optimizer.step()

    times, end = [], time.perf_counter() + seconds
    step()
    while time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    times.sort()
    middle = times[len(times) // 2]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads: {len(times)} steps, "
          f"fastest {times[0] * 1e3:.0f} ms, median {middle * 1e3:.0f} ms")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
