"""Regenerates tests/golden/embed/minilm.json: sentence embeddings of all-MiniLM-L6-v2 by a NumPy forward pass.

Written from the BERT paper and the model's config.json, sharing no code with candle or transformers.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy safetensors tokenizers
    scripts/fetch-models.sh minilm
    /tmp/venv/bin/python scripts/reference/minilm_golden.py [MODEL_FOLDER]
"""

import json
import math
import os
import pathlib
import sys

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

MAX_TOKENS = 256
LONG = (
    "Open the settings, choose the display page, lower the brightness to forty percent, and then go back to the home "
    "screen. "
)
TEXTS = [
    "search for a dog in the browser",
    "look up dogs on the web",
    "add milk to the shopping list",
    "Save",
    LONG * 8,
    LONG * 14,
    "打开浏览器并搜索天气",
    "…!? -- ()",
    "Überprüfe die E-Mail von café@example.com 📧",
]


def cache_folder():
    base = os.environ.get("TRACEMILL_CACHE")
    if base is None:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tracemill")
    return pathlib.Path(base) / "models" / "all-MiniLM-L6-v2"


def layer_norm(x, weight, bias, eps):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def embed(ids, w, config):
    """Embeds one text alone, without padding, in double precision."""
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]

    def linear(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        return layer_norm(x, w[name + ".weight"], w[name + ".bias"], eps)

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)] + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{i}."

        def split(name):
            return linear(x, p + "attention.self." + name).reshape(len(ids), heads, -1).transpose(1, 0, 2)

        q, k, v = split("query"), split("key"), split("value")
        attention = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1]))
        context = (attention @ v).transpose(1, 0, 2).reshape(len(ids), -1)
        x = norm(x + linear(context, p + "attention.output.dense"), p + "attention.output.LayerNorm")
        h = linear(x, p + "intermediate.dense")
        h = 0.5 * h * (1.0 + np.vectorize(math.erf)(h / math.sqrt(2.0)))
        x = norm(x + linear(h, p + "output.dense"), p + "output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else cache_folder()
    config = json.loads((folder / "config.json").read_text())
    weights = {name: t.astype(np.float64) for name, t in load_file(folder / "model.safetensors").items()
               if np.issubdtype(t.dtype, np.floating)}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    cases = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        vector = embed(ids, weights, config)
        cases.append({"text": text, "tokens": len(ids), "vector": [round(float(x), 6) for x in vector]})
    out = pathlib.Path(__file__).parents[2] / "tests/golden/embed/minilm.json"
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    out.write_text(f'{{"max_tokens": {MAX_TOKENS}, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
