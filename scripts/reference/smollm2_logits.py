"""Regenerates tests/golden/policy/{smollm2,qwen2.5}_logits.json: logits of the two real policies, from transformers.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch transformers gguf accelerate
    scripts/fetch-models.sh smollm2 qwen2.5-coder-0.5b
    /tmp/venv/bin/python scripts/reference/smollm2_logits.py [MODELS_FOLDER]

The GGUF is dequantised to f32 and run in f64, so that a difference is the tested code's own (some 1e-4 for f32). The
greedy continuation goes on past an end token. Both models must know that Paris is the capital of France: one whose
queries and keys lie in the wrong order does not.
"""

import hashlib
import json
import os
import pathlib
import sys

import torch
from policy_golden import double
from transformers import AutoModelForCausalLM, AutoTokenizer

NEW_TOKENS, TOP, SAMPLED = 16, 8, 40
MODELS = {"smollm2_logits.json": "SmolLM2-135M-Instruct", "qwen2.5_logits.json": "Qwen2.5-Coder-0.5B-Instruct"}
CHAT = [{"role": "user", "content": "Open the settings and switch the Wi-Fi off. Which app comes first?"}]
PLAIN = ["The capital of France is", "def fib(n):\n    if n <= 1:"]


def models_folder():
    base = os.environ.get("TRACEMILL_CACHE")
    if base is None:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tracemill")
    return pathlib.Path(base) / "models"


def continuation(model, ids):
    """The greedy ids and the smallest distance between the best logit and the next."""
    out, margin, cache, step = [], float("inf"), None, ids
    for _ in range(NEW_TOKENS):
        result = model(torch.tensor([step]), past_key_values=cache, use_cache=True)
        cache, best = result.past_key_values, result.logits[0, -1].topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        out.append(best.indices[0].item())
        step = out[-1:]
    return out, margin


def prompt_values(model, tokenizer, text, ids, chosen):
    logits = model(torch.tensor([ids])).logits[0]
    positions = []
    for position in sorted({0, len(ids) // 2, len(ids) - 1}):
        row = logits[position]
        top = row.topk(TOP)
        positions.append({
            "position": position,
            "top_ids": top.indices.tolist(),
            "top_logits": [round(x, 6) for x in top.values.tolist()],
            "logits": [round(x, 6) for x in row[chosen].tolist()],
            "logsumexp": round(row.logsumexp(0).item(), 6),
        })
    greedy, margin = continuation(model, ids)
    assert margin > 5e-3, f"a near tie after {text!r}: {margin}"
    return {"text": text, "ids": ids, "positions": positions, "greedy": greedy, "greedy_text": tokenizer.decode(greedy),
            "greedy_margin": round(margin, 6)}


@torch.inference_mode()
def write(path, folder):
    (gguf,) = folder.glob("*.gguf")
    model = double(AutoModelForCausalLM.from_pretrained(folder, gguf_file=gguf.name, dtype=torch.float32))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=gguf.name)
    chosen = torch.randperm(model.config.vocab_size, generator=torch.Generator().manual_seed(7))[:SAMPLED].sort().values
    chat = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, tokenize=False)
    prompts = []
    for text in [*PLAIN, chat]:
        ids = tokenizer(text, add_special_tokens=False).input_ids
        prompts.append(prompt_values(model, tokenizer, text, ids, chosen))
        print(path.name, prompts[-1]["greedy_margin"], repr(prompts[-1]["greedy_text"]))
    assert "Paris" in prompts[0]["greedy_text"]
    head = {"file": gguf.name, "sha256": hashlib.sha256(gguf.read_bytes()).hexdigest(), "chosen_ids": chosen.tolist()}
    lines = ",\n".join(json.dumps(prompt, ensure_ascii=False) for prompt in prompts)
    path.write_text(json.dumps(head)[:-1] + f', "prompts": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    out = pathlib.Path(__file__).parents[2] / "tests/golden/policy"
    models = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else models_folder()
    for name, model in MODELS.items():
        write(out / name, models / model)
