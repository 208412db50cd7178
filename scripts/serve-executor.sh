#!/usr/bin/env bash
# Serves the paper's executor, GUI-R1-7B, with vLLM at http://localhost:8000/v1 (a GPU with 24 GB or more).
#
# What decides its replies is pinned: the served name that settings and ledger keys use, the picture's size that the
# model sees (the client sends the same `max_pixels`, see examples/executor.toml), and the sampling, which the client
# sends with every request; vLLM would otherwise take what it does not get from the model's generation_config.json.
set -euo pipefail

model="${1:-ritzz-ai/GUI-R1-7B}"
exec vllm serve "$model" \
  --served-model-name "${SERVED_NAME:-gui-r1-7b}" \
  --port "${PORT:-8000}" \
  --dtype bfloat16 \
  --max-model-len 8192 \
  --limit-mm-per-prompt '{"image": 1}' \
  --mm-processor-kwargs '{"max_pixels": 1003520}' \
  --generation-config vllm \
  --seed 0
