"""Checks an adapter folder, a merged folder or both, written by tracemill, in transformers and PEFT.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch transformers peft safetensors
    /tmp/venv/bin/python scripts/reference/check_adapter.py --logits LOGITS.json \
        [--base FOLDER --adapter FOLDER] [--merged FOLDER] [--tolerance 1e-3]

LOGITS.json holds what tracemill computes with the adapter (or the merged model, which is the same):

    {"ids": [[…], …],               one list of token ids for each sequence, run alone and without padding
     "logits": [[[…], …], …],       sequence × position × vocabulary
     "positions": [[…], …],         optional: the positions that the rows of `logits` belong to; else all, in order
     "vocabulary_ids": […]}         optional: the vocabulary ids that a row's numbers belong to; else all, in order

Exit 0 when every part agrees within the tolerance; 1 with a message on standard error otherwise. An adapter must also
hold exactly the tensors that PEFT expects, and change the base's logits (--neutral lets one through that does not).
"""

import argparse
import json
import pathlib
import sys

import torch
from peft import PeftConfig, PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


class Mismatch(Exception):
    """A part does not hold; the message says which and by how much."""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logits", type=pathlib.Path, required=True)
    parser.add_argument("--base", type=pathlib.Path)
    parser.add_argument("--adapter", type=pathlib.Path)
    parser.add_argument("--merged", type=pathlib.Path)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="largest absolute difference of a logit")
    parser.add_argument("--neutral", action="store_true", help="the adapter may leave the base's logits as they are")
    args = parser.parse_args()
    if (args.base is None) != (args.adapter is None):
        parser.error("--base and --adapter go together")
    if args.adapter is None and args.merged is None:
        parser.error("nothing to check: give --base with --adapter, --merged, or all three")
    return args


def expected(path):
    """Each sequence as (ids, positions, vocabulary ids or None, logits)."""
    data = json.loads(path.read_text())
    unknown = data.keys() - {"ids", "logits", "positions", "vocabulary_ids"}
    if unknown or not data.get("ids"):
        raise Mismatch(f"{path}: " + (f"unknown keys {sorted(unknown)}" if unknown else "no sequences"))
    columns = data.get("vocabulary_ids")
    positions = data.get("positions") or [list(range(len(ids))) for ids in data["ids"]]
    out = []
    if not len(data["ids"]) == len(data["logits"]) == len(positions):
        raise Mismatch(f"{path}: {len(data['ids'])} sequences, {len(data['logits'])} of logits")
    for i, (ids, at, rows) in enumerate(zip(data["ids"], positions, data["logits"])):
        logits = torch.tensor(rows, dtype=torch.float64)
        if logits.dim() != 2 or len(at) != len(logits):
            raise Mismatch(f"{path}: sequence {i} has {len(at)} positions and logits of shape {tuple(logits.shape)}")
        if not torch.isfinite(logits).all():
            raise Mismatch(f"{path}: sequence {i} has logits that are not finite")
        out.append((ids, at, columns, logits))
    return out


def load(folder):
    """The model in f32, every weight of which must come from the folder and be used."""
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True)
    wrong = {key: sorted(map(str, info[key])) for key in ["missing_keys", "unexpected_keys", "mismatched_keys"]
             if info.get(key)}
    if wrong:
        raise Mismatch(f"{folder}: {wrong}")
    return model.eval()


def forward(model, sequences):
    out = []
    for ids, at, columns, _ in sequences:
        rows = model(torch.tensor([ids])).logits[0, torch.tensor(at)].double()
        out.append(rows if columns is None else rows[:, torch.tensor(columns)])
    return out


def compare(name, actual, sequences, tolerance):
    worst, where = 0.0, None
    for i, (rows, (_, at, columns, reference)) in enumerate(zip(actual, sequences)):
        if rows.shape != reference.shape:
            raise Mismatch(f"{name}: sequence {i} has logits of shape {tuple(rows.shape)}, the file has "
                           f"{tuple(reference.shape)}")
        difference = (rows - reference).abs()
        if not difference.max() <= worst:
            worst = difference.max().item()
            row, column = divmod(difference.argmax().item(), difference.shape[1])
            where = (f"sequence {i}, position {at[row]}, token {columns[column] if columns else column}: "
                     f"{reference[row, column]:.6f} in the file, {rows[row, column]:.6f} here")
    print(f"{name}: largest difference {worst:.3g}" + (f" ({where})" if where else ""))
    if not worst <= tolerance:
        raise Mismatch(f"{name}: the logits differ by {worst:.3g}, more than {tolerance:g} ({where})")


def check_tensors(model, adapter):
    """PEFT only warns of tensors that it misses or does not know."""
    wanted = {name: tuple(t.shape) for name, t in get_peft_model_state_dict(model).items()}
    found = {name: tuple(t.shape) for name, t in load_file(adapter / "adapter_model.safetensors").items()}
    if wanted != found:
        names = sorted(n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n))
        first = names[0]
        raise Mismatch(f"{adapter}: {len(names)} tensors are not what PEFT expects; the first is {first}: "
                       f"{found.get(first, 'absent')} in the file, {wanted.get(first, 'unknown')} in PEFT")
    print(f"adapter: {len(found)} tensors, as PEFT expects them")


def check_adapter(args, sequences):
    base = load(args.base)
    before = forward(base, sequences)
    config = PeftConfig.from_pretrained(args.adapter)
    model = PeftModel.from_pretrained(base, args.adapter).eval()
    check_tensors(model, args.adapter)
    print(f"adapter: r {config.r}, alpha {config.lora_alpha}, rslora {config.use_rslora}, on {len(config.target_modules)} "
          f"modules, base {config.base_model_name_or_path!r}")
    after = forward(model, sequences)
    change = max((a - b).abs().max().item() for a, b in zip(before, after))
    print(f"adapter: changes the base's logits by up to {change:.3g}")
    if change == 0.0 and not args.neutral:
        raise Mismatch("the adapter does not change the base's logits (--neutral if that is meant)")
    compare("adapter", after, sequences, args.tolerance)


@torch.inference_mode()
def main():
    args = arguments()
    torch.set_num_threads(1)
    sequences = expected(args.logits)
    if args.adapter:
        check_adapter(args, sequences)
    if args.merged:
        compare("merged", forward(load(args.merged), sequences), sequences, args.tolerance)


if __name__ == "__main__":
    try:
        main()
    except Mismatch as mismatch:
        sys.exit(f"check_adapter: {mismatch}")
