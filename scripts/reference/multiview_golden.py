"""Golden values of the multi-view encoder, from PyTorch in f32.

    python scripts/reference/multiview_golden.py tests/golden/multiview/encoder.safetensors

Needs torch (2.x), numpy and safetensors. Written unit by unit and pair by pair from the equations, so
that it shares no shortcut with the Rust code.
"""

import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

SLOTS = ["env", "middle", "description"]
PAIRS = [(p, q) for p in range(3) for q in range(3) if p != q]
UNITS, DIM_IN, HIDDEN, DIM, PREDICTOR = 7, 12, 8, 8, 4
TAU, LAMBDA_PRED, LAMBDA_REC = 0.1, 0.1, 0.05
MASKED = [[1, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]]
FULL = [[1, 1, 1]] * UNITS


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1 = nn.Linear(DIM_IN, HIDDEN)
        self.linear2 = nn.Linear(HIDDEN, DIM)
        self.norm = nn.LayerNorm(DIM)

    def forward(self, x):
        return self.norm(self.linear2(F.gelu(self.linear1(x))))


class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1 = nn.Linear(DIM, PREDICTOR)
        self.linear2 = nn.Linear(PREDICTOR, DIM)

    def forward(self, z):
        return self.linear2(F.gelu(self.linear1(z)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.ModuleDict({slot: Head() for slot in SLOTS})
        self.predictor = nn.ModuleDict(
            {f"{SLOTS[p]}_to_{SLOTS[q]}": Predictor() for p, q in PAIRS}
        )
        self.decoder = nn.ModuleDict({slot: nn.Linear(DIM, DIM_IN) for slot in SLOTS})

    def views(self, x):
        return [self.head[slot](x[v]) for v, slot in enumerate(SLOTS)]


def both(present, p, q):
    return [i for i in range(UNITS) if present[i][p] and present[i][q]]


def contrastive(z, present, include_self):
    """Eq. 3, the inner product a cosine."""
    pairs = []
    for p, q in PAIRS:
        units = both(present, p, q)
        if len(units) < 2:
            continue
        terms = []
        for i in units:
            logits = {j: F.cosine_similarity(z[p][i], z[q][j], dim=0, eps=1e-12) / TAU for j in units}
            below = torch.stack([logits[j] for j in units if include_self or j != i])
            terms.append(torch.logsumexp(below, 0) - logits[i])
        pairs.append(torch.stack(terms).mean())
    return torch.stack(pairs).mean()


def prediction(model, z, present):
    """Eq. 4 on L2-normalised latents, both directions of every ordered pair at half weight."""
    unit = [F.normalize(v, dim=1) for v in z]
    g = lambda p, q, i: model.predictor[f"{SLOTS[p]}_to_{SLOTS[q]}"](unit[p][i])
    pairs = []
    for p, q in PAIRS:
        units = both(present, p, q)
        if not units:
            continue
        terms = [
            (g(p, q, i) - unit[q][i]).pow(2).sum() + (g(q, p, i) - unit[p][i]).pow(2).sum() for i in units
        ]
        pairs.append(torch.stack(terms).sum() / (2 * len(units)))
    return torch.stack(pairs).mean()


def reconstruction(model, z, x, present):
    """Eq. 5 with the input L2-normalised."""
    views = []
    for v, slot in enumerate(SLOTS):
        units = [i for i in range(UNITS) if present[i][v]]
        if not units:
            continue
        terms = [(model.decoder[slot](z[v][i]) - F.normalize(x[v][i], dim=0)).pow(2).sum() for i in units]
        views.append(torch.stack(terms).mean())
    return torch.stack(views).mean()


def losses(model, x, present):
    z = model.views(x)
    con = contrastive(z, present, False)
    pred = prediction(model, z, present)
    rec = reconstruction(model, z, x, present)
    return {
        "contrastive": con,
        "contrastive_self": contrastive(z, present, True),
        "prediction": pred,
        "reconstruction": rec,
        "total": con + LAMBDA_PRED * pred + LAMBDA_REC * rec,
    }


def fused(z, present, weights):
    rows = []
    for i in range(UNITS):
        there = [v for v in range(3) if present[i][v] and weights[v] > 0]
        share = sum(weights[v] for v in there)
        row = torch.zeros(DIM)
        for v in there:
            row = row + weights[v] / share * z[v][i]
        rows.append(row)
    return torch.stack(rows)


def main(path):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Encoder()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".norm." in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    x = [torch.randn(UNITS, DIM_IN) for _ in SLOTS]
    out = {f"x.{slot}": x[v] for v, slot in enumerate(SLOTS)}
    out["present.masked"] = torch.tensor(MASKED, dtype=torch.uint8)
    out |= {f"param.{name}": p.detach().clone() for name, p in model.named_parameters()}
    for case, present in [("full", FULL), ("masked", MASKED)]:
        z = model.views(x)
        out |= {f"{case}.z.{slot}": z[v].detach() for v, slot in enumerate(SLOTS)}
        out[f"{case}.fused"] = fused(z, present, [0.4, 0.3, 0.3]).detach()
        out[f"{case}.fused_unit"] = F.normalize(out[f"{case}.fused"], dim=1)
        out[f"{case}.subgroup_unit"] = F.normalize(fused(z, present, [0.0, 0.5, 0.5]).detach(), dim=1)
        for name, loss in losses(model, x, present).items():
            out[f"{case}.loss.{name}"] = loss.detach().reshape(1)
            model.zero_grad()
            loss.backward(retain_graph=True)
            for parameter_name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    out[f"{case}.grad.{name}.{parameter_name}"] = parameter.grad.clone()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    for step in range(3):
        optimizer.zero_grad()
        losses(model, x, MASKED)["total"].backward()
        optimizer.step()
        out |= {f"step{step + 1}.{name}": p.detach().clone() for name, p in model.named_parameters()}
    save_file({name: tensor.contiguous().clone() for name, tensor in out.items()}, path)


if __name__ == "__main__":
    main(sys.argv[1])
