"""TRL's, plain PyTorch's and transformers' time for what `tracemill train sft|grpo` does: LoRA on the CPU in f32.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch transformers trl peft accelerate gguf
    scripts/fetch-models.sh smollm2
    V=/tmp/venv/bin/python; B=scripts/bench/policy_trl.py
    $V $B --make-model /tmp/smollm2 [--gguf FILE]                             # once: GGUF to a Hugging Face folder, f32
    $V $B --make-tokens /tmp/rows.jsonl --model /tmp/smollm2 --data sft.jsonl  # rows of token ids, for both sides
    $V $B --mode sft|torch-sft|grpo|decode --model /tmp/smollm2 --data /tmp/rows.jsonl --steps 10

A row is {"messages": [...]}, whose last assistant turn is the completion, or {"prompt_ids": [...], "completion_ids":
[...]} (the latter not needed by grpo and decode). Rows are taken in the file's order, round and round; no row is
shuffled. One JSON object goes to standard output, everything else to standard error. Run each mode alone: the peak of
resident memory is the process's. Steady figures leave out the first --skip steps.

Modes: `sft` is SFTTrainer with its own padding and loss; `torch-sft` is a hand-written loop that computes logits at the
completion's positions only; `grpo` is GRPOTrainer, whose generation, reference pass and rewards are timed apart;
`decode` is `generate` with batches of 1 and 16. TRL's own defaults that are changed: f32 instead of bf16, and no
gradient checkpointing (--checkpointing turns it on again).
"""

import argparse
import contextlib
import json
import os
import pathlib
import resource
import statistics
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch
from peft import LoraConfig, get_peft_model
from torch.nn import functional as F
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, TrainerCallback

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--mode", choices=["sft", "torch-sft", "grpo", "decode"])
    what.add_argument("--make-model", metavar="DIR", type=pathlib.Path)
    what.add_argument("--make-tokens", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--gguf", type=pathlib.Path, help="for --make-model; SmolLM2 in the cache when not given")
    parser.add_argument("--model", help="a Hugging Face folder")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--skip", type=int, default=2, help="first steps left out of the steady figures")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=4, help="rows in one forward pass, for sft and torch-sft")
    parser.add_argument("--accumulation", type=int, default=1)
    parser.add_argument("--max-length", type=int, default=1024, help="for sft and torch-sft; longer rows lose their end")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--alpha", type=int, default=16)
    parser.add_argument("--checkpointing", action="store_true", help="recompute activations in the backward pass")
    parser.add_argument("--sft-loss", choices=["nll", "chunked_nll"], default="nll", help="SFTConfig's loss_type")
    parser.add_argument("--prompts", type=int, default=4, help="prompts in a GRPO step")
    parser.add_argument("--rollouts", type=int, default=4, help="completions of each prompt")
    parser.add_argument("--micro-batch", type=int, help="rows in one GRPO forward pass; all of them when not given")
    parser.add_argument("--max-prompt", type=int, default=256, help="for grpo and decode; longer prompts lose their start")
    parser.add_argument("--max-completion", type=int, default=48)
    parser.add_argument("--fixed-length", action="store_true", help="GRPO completions never end before --max-completion")
    parser.add_argument("--beta", type=float, default=0.01)
    parser.add_argument("--temperature", type=float, default=1.0)
    args = parser.parse_args()
    if args.make_model is None and (args.model is None or args.data is None):
        parser.error("--model and --data are needed")
    if args.mode and args.steps <= args.skip:
        parser.error("--steps must be above --skip")
    return args


# ---------------------------------------------------------------- models and rows

def make_model(folder, gguf):
    if gguf is None:
        cache = os.environ.get("TRACEMILL_CACHE") or os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tracemill")
        (gguf,) = pathlib.Path(cache, "models/SmolLM2-135M-Instruct").glob("*.gguf")
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    if model.config.model_type == "llama":
        # transformers' GGUF reader does not know SmolLM's pre-tokenizer, which parts digits first: "a  3" differs.
        from tokenizers import pre_tokenizers as pre
        tokenizer.backend_tokenizer.pre_tokenizer = pre.Sequence(
            [pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False, use_regex=True)])
    del model.config.quantization_config
    for name in ["is_quantized", "hf_quantizer", "quantization_method"]:
        if hasattr(model, name):
            delattr(model, name)
    model.config._name_or_path = gguf.stem
    model.save_pretrained(folder, max_shard_size="100GB")
    tokenizer.save_pretrained(folder)
    print(f"{folder}: {model.num_parameters() / 1e6:.1f} M parameters from {gguf.name}", file=sys.stderr)


def token_rows(path, tokenizer):
    """Every row as (prompt ids, completion ids)."""
    def template(messages, **options):
        return tokenizer.apply_chat_template(messages, return_dict=False, **options)

    rows = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if "prompt_ids" in row:
            rows.append((row["prompt_ids"], row.get("completion_ids", [])))
            continue
        messages = row["messages"]
        if messages[-1]["role"] != "assistant":
            rows.append((template(messages, add_generation_prompt=True), []))
            continue
        prompt = template(messages[:-1], add_generation_prompt=True)
        whole = template(messages)
        assert whole[:len(prompt)] == prompt, "the chat template does not continue its own prompt"
        rows.append((prompt, whole[len(prompt):]))
    if not rows:
        sys.exit(f"{path}: no rows")
    return rows


def sft_rows(args, rows):
    """As many rows as the steps use, in order; rows without a completion within the length are left out."""
    fitting = [(p, c[:args.max_length - len(p)]) for p, c in rows if c and len(p) < args.max_length]
    if not fitting:
        sys.exit("no row has a completion within --max-length")
    needed = args.steps * args.batch_size * args.accumulation
    return [fitting[i % len(fitting)] for i in range(needed)], len(rows) - len(fitting)


def load(args):
    return AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32, attn_implementation="sdpa")


def lora(args):
    return LoraConfig(r=args.rank, lora_alpha=args.alpha, lora_dropout=0.0, target_modules=TARGETS,
                      task_type="CAUSAL_LM")


# ---------------------------------------------------------------- what is reported

def peak_rss_mb():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def steady(args, seconds, counts):
    """Figures over the steps after the first --skip; `counts` holds one number for each step under each name."""
    times = seconds[args.skip:]
    out = {
        "step_s": [round(s, 4) for s in seconds],
        "step_s_mean": round(statistics.mean(times), 4),
        "step_s_median": round(statistics.median(times), 4),
        "step_s_min": round(min(times), 4),
    }
    for name, per_step in counts.items():
        out[name + "_per_step"] = round(statistics.mean(per_step[args.skip:]), 1)
        out[name + "_per_s"] = round(sum(per_step[args.skip:]) / sum(times), 1)
    return out


def sft_counts(args, rows):
    """Real, padded and completion tokens of each step, whose micro-batches are padded to their longest row."""
    batches = [rows[i:i + args.batch_size] for i in range(0, len(rows), args.batch_size)]
    real = [sum(len(p) + len(c) for p, c in batch) for batch in batches]
    padded = [len(batch) * max(len(p) + len(c) for p, c in batch) for batch in batches]
    completion = [sum(len(c) for _, c in batch) for batch in batches]
    per_step = lambda values: [sum(values[i:i + args.accumulation]) for i in range(0, len(values), args.accumulation)]
    return {"tokens": per_step(real), "padded_tokens": per_step(padded), "completion_tokens": per_step(completion)}


class Recorder(TrainerCallback):
    def __init__(self):
        self.seconds, self.logs = [], []

    def on_train_begin(self, args, state, control, **kwargs):
        self.last = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        now = time.perf_counter()
        self.seconds.append(now - self.last)
        self.last = now

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            self.logs.append(dict(logs))


def trainer_options(args, folder):
    return {
        "output_dir": folder, "max_steps": args.steps, "learning_rate": args.lr, "lr_scheduler_type": "constant",
        "max_grad_norm": 1.0, "weight_decay": 0.0, "seed": args.seed, "bf16": False, "use_cpu": True,
        "gradient_checkpointing": args.checkpointing, "report_to": "none", "save_strategy": "no", "logging_steps": 1,
        "disable_tqdm": True, "dataloader_num_workers": 0, "train_sampling_strategy": "sequential",
    }


# ---------------------------------------------------------------- modes

def run_sft(args, tokenizer, rows):
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    rows, left_out = sft_rows(args, rows)
    data = Dataset.from_list([{"input_ids": p + c, "completion_mask": [0] * len(p) + [1] * len(c)} for p, c in rows])
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(**trainer_options(args, folder), per_device_train_batch_size=args.batch_size,
                           gradient_accumulation_steps=args.accumulation, max_length=args.max_length, packing=False,
                           completion_only_loss=True, loss_type=args.sft_loss, shuffle_dataset=False)
        trainer = SFTTrainer(model=load(args), args=config, train_dataset=data, processing_class=tokenizer,
                             peft_config=lora(args), callbacks=[recorder])
        loaded = peak_rss_mb()
        trainer.train()
    return {
        "rows_left_out": left_out, "loss_type": args.sft_loss, "rss_loaded_mb": loaded,
        **steady(args, recorder.seconds, sft_counts(args, rows)),
        "losses": [float(log["loss"]) for log in recorder.logs],
    }


def padded_batch(rows, pad):
    """Ids, attention mask and, at each position that predicts a completion token, that token; -100 elsewhere."""
    width = max(len(p) + len(c) for p, c in rows)
    ids = torch.full((len(rows), width), pad)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    targets = torch.full((len(rows), width), -100)
    for i, (p, c) in enumerate(rows):
        n = len(p) + len(c)
        ids[i, :n], mask[i, :n] = torch.tensor(p + c), 1
        targets[i, len(p) - 1:n - 1] = torch.tensor(c)
    return ids, mask, targets


def run_torch_sft(args, tokenizer, rows):
    rows, left_out = sft_rows(args, rows)
    model = load(args)
    if args.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model = get_peft_model(model, lora(args))
    model.train()
    causal = model.get_base_model()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=args.lr, weight_decay=0.0, fused=True)
    loaded, seconds, losses, at = peak_rss_mb(), [], [], 0
    for _ in range(args.steps):
        start = time.perf_counter()
        step_rows = rows[at:at + args.batch_size * args.accumulation]
        at += len(step_rows)
        count, loss = sum(len(c) for _, c in step_rows), 0.0
        for i in range(0, len(step_rows), args.batch_size):
            ids, mask, targets = padded_batch(step_rows[i:i + args.batch_size], tokenizer.pad_token_id or 0)
            hidden = causal.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
            chosen = targets >= 0
            part = F.cross_entropy(causal.lm_head(hidden[chosen]), targets[chosen], reduction="sum") / count
            part.backward()
            loss += part.item()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
        losses.append(round(loss, 6))
        print(f"loss {loss:.4f}, {seconds[-1]:.2f} s", file=sys.stderr)
    return {"rows_left_out": left_out, "rss_loaded_mb": loaded, **steady(args, seconds, sft_counts(args, rows)),
            "losses": losses}


def run_grpo(args, tokenizer, rows):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    total = args.prompts * args.rollouts
    micro = args.micro_batch or total
    if total % micro or micro % args.rollouts:
        sys.exit("--micro-batch must hold whole groups and divide prompts × rollouts")
    wanted = [rows[i % len(rows)][0][-args.max_prompt:] for i in range(args.steps * args.prompts)]
    data = Dataset.from_list([{"prompt": f"{i}"} for i in range(len(wanted))])
    spent = {"generation": 0.0, "reference": 0.0, "rewards": 0.0}
    marks, tokens = [], []

    def reward(completions, completion_ids, **kwargs):
        tokens.append(sum(map(len, completion_ids)))
        return [-abs(len(text) - 100) / 100 for text in completions]

    class Timed(GRPOTrainer):
        """Feeds the rows' own ids instead of tokenising text again, and times the parts of a step."""

        def _tokenize_prompts(self, prompts):
            return [list(wanted[int(p)]) for p in prompts], None, {}

        def _part(self, name, call, *a, **k):
            start = time.perf_counter()
            out = call(*a, **k)
            spent[name] += time.perf_counter() - start
            return out

        def _generate_single_turn(self, *a, **k):
            return self._part("generation", super()._generate_single_turn, *a, **k)

        def _get_per_token_logps_and_entropies(self, *a, **k):
            if torch.is_grad_enabled():
                return super()._get_per_token_logps_and_entropies(*a, **k)
            return self._part("reference", super()._get_per_token_logps_and_entropies, *a, **k)

        def _calculate_rewards(self, *a, **k):
            return self._part("rewards", super()._calculate_rewards, *a, **k)

    class Parts(TrainerCallback):
        def on_step_end(self, *a, **k):
            marks.append(dict(spent))

    recorder = Recorder()
    fixed = {"min_new_tokens": args.max_completion} if args.fixed_length else None
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(**trainer_options(args, folder), per_device_train_batch_size=micro,
                            gradient_accumulation_steps=total // micro, num_generations=args.rollouts,
                            max_completion_length=args.max_completion, beta=args.beta, temperature=args.temperature,
                            top_p=1.0, top_k=0, generation_kwargs=fixed, shuffle_dataset=False)
        trainer = Timed(model=load(args), reward_funcs=[reward], args=config, train_dataset=data,
                        processing_class=tokenizer, peft_config=lora(args), callbacks=[recorder, Parts()])
        loaded = peak_rss_mb()
        trainer.train()
    prompt_tokens = [args.rollouts * sum(map(len, wanted[i:i + args.prompts]))
                     for i in range(0, len(wanted), args.prompts)]
    counts = {"completion_tokens": tokens, "tokens": [a + b for a, b in zip(prompt_tokens, tokens)]}
    out = {"loss_type": config.loss_type, "rss_loaded_mb": loaded, **steady(args, recorder.seconds, counts)}
    kept = len(marks) - args.skip
    for name in spent:
        out[name + "_s_mean"] = round((marks[-1][name] - marks[args.skip - 1][name] if args.skip else
                                       marks[-1][name]) / kept, 4)
    out["train_s_mean"] = round(out["step_s_mean"] - sum(out[name + "_s_mean"] for name in spent), 4)
    out["generated_tokens_per_s"] = round(out["completion_tokens_per_step"] / out["generation_s_mean"], 1)
    out["losses"] = [float(log["loss"]) for log in recorder.logs]
    out["kl"] = [float(log["kl"]) for log in recorder.logs if "kl" in log]
    return out


@torch.inference_mode()
def run_decode(args, tokenizer, rows):
    model = load(args).eval()
    loaded, out = peak_rss_mb(), {}
    pad = tokenizer.pad_token_id or 0

    def timed(prompts, new):
        width = max(map(len, prompts))
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        config = GenerationConfig(max_new_tokens=new, min_new_tokens=new, do_sample=True, temperature=args.temperature,
                                  top_k=0, top_p=1.0, pad_token_id=pad, eos_token_id=model.config.eos_token_id)
        start = time.perf_counter()
        result = model.generate(ids, attention_mask=mask, generation_config=config)
        seconds = time.perf_counter() - start
        assert result.shape == (len(prompts), width + new)
        return seconds

    for batch in [1, 16]:
        whole, first, lengths = [], [], []
        for step in range(args.steps):
            prompts = [rows[(step * batch + i) % len(rows)][0][-args.max_prompt:] for i in range(batch)]
            lengths.append(statistics.mean(map(len, prompts)))
            first.append(timed(prompts, 1))
            whole.append(timed(prompts, args.max_completion))
        whole, first = whole[args.skip:], first[args.skip:]
        total, prefill = statistics.median(whole), statistics.median(first)
        out[f"batch_{batch}"] = {
            "prompt_tokens_mean": round(statistics.mean(lengths[args.skip:]), 1),
            "new_tokens": args.max_completion,
            "seconds": [round(s, 4) for s in whole],
            "tokens_per_s": round(batch * args.max_completion / total, 1),
            "first_token_s": round(prefill, 4),
            "tokens_per_s_after_first": round(batch * (args.max_completion - 1) / (total - prefill), 1),
        }
    return {"rss_loaded_mb": loaded, **out}


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    if args.make_model:
        make_model(args.make_model, args.gguf)
        return
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    rows = token_rows(args.data, tokenizer)
    if args.make_tokens:
        lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in rows]
        args.make_tokens.write_text("\n".join(lines) + "\n")
        return
    import peft
    import transformers
    import trl
    head = {"mode": args.mode, "model": pathlib.Path(args.model).name, "steps": args.steps, "skip": args.skip,
            "threads": args.threads, "checkpointing": args.checkpointing, "lr": args.lr,
            "versions": {m.__name__: m.__version__ for m in [torch, transformers, trl, peft]}}
    if args.mode in ["sft", "torch-sft"]:
        head |= {"batch_size": args.batch_size, "accumulation": args.accumulation, "max_length": args.max_length}
    if args.mode == "grpo":
        head |= {"prompts": args.prompts, "rollouts": args.rollouts, "beta": args.beta,
                 "micro_batch": args.micro_batch or args.prompts * args.rollouts, "fixed_length": args.fixed_length}
    if args.mode in ["grpo", "decode"]:
        head |= {"max_prompt": args.max_prompt, "max_completion": args.max_completion, "temperature": args.temperature}
    run = {"sft": run_sft, "torch-sft": run_torch_sft, "grpo": run_grpo, "decode": run_decode}[args.mode]
    with contextlib.redirect_stdout(sys.stderr):  # trainers print their logs
        result = run(args, tokenizer, rows)
    print(json.dumps({**head, **result, "peak_rss_mb": peak_rss_mb()}))


if __name__ == "__main__":
    main()
