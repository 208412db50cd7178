#!/usr/bin/env bash
# The training experiment of LOG.md on a small machine: train-droidtask.sh ROWS MODEL RUN STAGE [SEED]
#
# ROWS is what prepare-droidtask.sh wrote, MODEL a Hugging Face folder or GGUF file. Stages: sft-coordinator,
# grpo-coordinator, sft-state-tracker, grpo-state-tracker, in this order; GRPO of the State Tracker goes through the
# Coordinator of the same run. Sizes are those of two CPU cores.
set -euo pipefail
rows="$1" model="$2" run="$3" stage="$4" seed="${5:-1}"
sft=(--set sft.batch_rows=8 --set sft.epochs="${EPOCHS:-2}" --set sft.lr="${SFT_LR:-1e-3}" --set sft.eval_replies=48 --set sft.eval_rows=48
  --set sft.checkpoint_every=10)
grpo=(--set grpo.prompts=4 --set grpo.rollouts=4 --set grpo.max_prompt=256 --set grpo.max_response=48
  --set grpo.max_steps="${STEPS:-60}" --set grpo.lr="${LR:-2e-4}" --set grpo.eval_rows=96 --set grpo.eval_draws="${DRAWS:-4}" --set grpo.resample=1
  --set grpo.checkpoint_every=5)
case "$stage" in
  sft-coordinator)
    exec tracemill train sft --run "$run" --role coordinator --model "$model" --seed "$seed" --resume "${sft[@]}" \
      --data "$rows/train-sft-coordinator" --held-out "$rows/held-sft-coordinator" \
      --set sft.max_tokens=304 --set sft.eval_max_tokens=48 ;;
  sft-state-tracker)
    exec tracemill train sft --run "$run" --role state-tracker --model "$model" --seed "$seed" --resume "${sft[@]}" \
      --data "$rows/train-sft-state-tracker" --data "$rows/ces-sft-state-tracker" \
      --held-out "$rows/held-sft-state-tracker" --held-out "$rows/ces-sft-state-tracker/test.jsonl" \
      --set sft.epochs=1 --set sft.rows=480 --set sft.max_tokens=400 --set sft.eval_max_tokens=128 ;;
  grpo-coordinator)
    exec tracemill train grpo --run "$run-$seed" --role coordinator --model "$model" --seed "$seed" --resume \
      "${grpo[@]}" --adapter "$run/policies/coordinator/sft/adapter" \
      --data "$rows/train-rl-coordinator" --held-out "$rows/held-rl-coordinator" ;;
  grpo-state-tracker)
    exec tracemill train grpo --run "$run-$seed" --role state-tracker --model "$model" --seed "$seed" --resume \
      "${grpo[@]}" --adapter "$run/policies/state-tracker/sft/adapter" \
      --set reward.coordinator_model.model="$model" \
      --set reward.coordinator_model.adapter="$run-$seed/policies/coordinator/grpo/adapter" \
      --set reward.max_tokens=48 --set grpo.max_response=64 \
      --data "$rows/train-rl-state-tracker" --held-out "$rows/held-rl-state-tracker" ;;
  *) echo "unknown stage $stage" >&2; exit 2 ;;
esac
