"""Writes tests/golden/rl/trl.json or tests/golden/rl/verl.json: advantages, policy losses and their gradients, computed
by the frameworks' own functions in double precision, the gradients by torch's autograd.

The frameworks' requirements exclude each other, so each wants an environment of its own (Python 3.11, a CPU is enough).
Run from the repository root, once with each:

    python3 -m venv trl  && trl/bin/pip install trl==1.16.0
    trl/bin/python scripts/reference/rl_golden.py trl

    python3 -m venv verl && verl/bin/pip install verl==0.9.1
    verl/bin/python scripts/reference/rl_golden.py verl

TRL keeps advantages and the weights of importance sampling inside GRPOTrainer._generate_and_score_completions; those
statements are taken out of its source and executed. GRPOTrainer._compute_loss runs on a stand-in for the trainer that
hands it log-probabilities. Of verl, the registered policy losses, agg_loss, kl_penalty,
compute_grpo_outcome_advantage and compute_rollout_correction_weights are called; apply_kl_penalty is taken out of its
file, which imports the servers of vLLM.

In the files, `settings` and `batch` are tracemill's; `framework` says what the framework was given for them. NaN is
written as null: verl divides 0 by 0 where no token counts. A case with `differs` is one where tracemill departs from
the framework on purpose, and says how.
"""

import ast
import inspect
import json
import math
import pathlib
import random
import sys
import textwrap
from collections import defaultdict
from importlib.metadata import version
from types import SimpleNamespace

import torch

OUT = pathlib.Path("tests/golden/rl")
FIELDS = ["logp", "old", "reference", "sampler"]
CLIP = {"low": 0.2, "high": 0.2}
HIGHER = {"low": 0.2, "high": 0.28}
OFF = {"beta": 0.0}


def batches():
    """Log-probabilities are multiples of 1/64, which f32 holds exactly."""
    rng = random.Random(11)

    def draw(lengths, advantages, spread, mask=None):
        step = lambda scale: rng.randint(-round(64 * scale), round(64 * scale)) / 64
        old = [-rng.randint(140, 260) / 64 for _ in range(sum(lengths))]
        batch = {
            "logp": [x + step(spread) for x in old],
            "old": old,
            "reference": [x + step(0.5) for x in old],
            "sampler": [x + step(0.9) for x in old],
            "lengths": lengths,
            "advantages": advantages,
        }
        return batch | ({"mask": [bool(m) for m in mask]} if mask else {})

    made = {
        "plain": draw([5, 3, 4, 2], [1.25, -0.75, 0.5, -1.5], 0.6),
        "empty": draw([4, 0, 3], [1.0, 2.0, -1.0], 0.5),
        "masked": draw([4, 3, 3], [0.75, -1.25, 1.0], 0.5, [1, 0, 1, 1, 0, 0, 0, 1, 1, 0]),
        "nothing": draw([2, 0, 2], [1.0, 1.0, -1.0], 0.5, [0, 0, 0, 0]),
        "one": draw([4], [0.0], 0.5),
        "near": draw([6, 5, 3], [1.0, -1.0, 0.5], 0.03),
        "apart": draw([4, 4], [-1.0, -0.5], 2.0),
    }
    made["first"] = made["plain"] | {"logp": made["plain"]["old"]}
    # Ratios of e^25 and e^-25 on both signs of the advantage, a reference far away on both sides, and at last a
    # sequence whose mean is e^11.
    made["far"] = {
        "logp": [-1.0, -26.0, -1.0, -26.0, -1.0, -4.0],
        "old": [-26.0, -1.0, -26.0, -1.0, -26.0, -1.0],
        "reference": [-4.0, -1.0, -2.0, -60.0, -3.0, -4.5],
        "sampler": [-1.0, -26.0, -26.5, -1.5, -26.25, -1.75],
        "lengths": [2, 2, 2],
        "advantages": [1.0, -1.0, -0.5],
    }
    return made


def padded(batch):
    """[B, T] tensors of what lies in a row, and the mask."""
    lengths = batch["lengths"]
    width = max(max(lengths), 1)
    starts = [sum(lengths[:i]) for i in range(len(lengths))]

    def rows(values, zero):
        return [values[s : s + n] + [zero] * (width - n) for s, n in zip(starts, lengths)]

    tensors = {k: torch.tensor(rows(batch[k], 0.0), dtype=torch.float64) for k in FIELDS}
    tensors["mask"] = torch.tensor(rows(batch.get("mask", [True] * sum(lengths)), False))
    tensors["advantages"] = torch.tensor(batch["advantages"], dtype=torch.float64)
    tensors["logp"].requires_grad_()
    return tensors


def in_a_row(gradient, batch):
    return [x for row, n in zip(gradient.tolist(), batch["lengths"]) for x in row[:n]]


def result(name, where, batch, settings, framework, loss, logp, metrics, differs):
    loss.backward()
    return {
        "name": name,
        "batch": where,
        "settings": settings,
        "framework": framework,
        "loss": loss.item(),
        "d_logp": in_a_row(logp.grad, batch),
        "metrics": metrics,
    } | ({"differs": differs} if differs else {})


# --- verl -------------------------------------------------------------------------------------------------------------


def verl_settings(loss, aggregation, clip, kl=OFF, **more):
    """tracemill's settings for a loss of verl, which always has a `clip_ratio_c`; `gspo` and `cispo` do not heed it."""
    return {"loss": loss, "aggregation": aggregation, "clip": {"c": 3.0} | clip, "kl": kl, **more}


def verl_loss(name, where, batch, settings, mode, differs=None):
    from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn, kl_penalty
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
    from verl.workers.config import ActorConfig

    t = padded(batch)
    clip, kl, aggregation = settings["clip"], settings["kl"], settings["aggregation"]
    totals = {"loss_scale_factor": settings["max_tokens"]} if "max_tokens" in settings else {}
    if "whole" in batch:
        totals |= {"batch_num_tokens": batch["whole"]["tokens"], "global_batch_size": batch["whole"]["sequences"]}
    framework = {"loss_mode": mode, "clip_ratio_low": clip["low"], "clip_ratio_high": clip["high"]}
    framework |= {"clip_ratio_c": clip["c"]}
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=4,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=clip["low"],
        clip_ratio_high=clip["high"],
        clip_ratio_c=clip["c"],
        global_batch_info=totals,
    )
    weights = None
    if "tis" in settings:
        tis = settings["tis"]
        weights, _ = compute_rollout_correction_weights(
            t["old"] - t["sampler"], t["mask"], rollout_is=tis["level"], rollout_is_threshold=tis["cap"]
        )
        framework |= {"rollout_is": tis["level"], "rollout_is_threshold": tis["cap"]}
    advantages = t["advantages"].unsqueeze(-1).expand_as(t["logp"])
    loss, metrics = get_policy_loss_fn(mode)(
        t["old"], t["logp"], advantages, t["mask"], aggregation, config, rollout_is_weights=weights
    )
    if kl["beta"] > 0:
        kld = kl_penalty(t["logp"], t["reference"], kl["estimator"])
        loss = loss + kl["beta"] * agg_loss(kld, t["mask"], aggregation, **totals)
        framework |= {"kl_loss_type": kl["estimator"], "kl_loss_coef": kl["beta"]}
    framework |= {"loss_agg_mode": aggregation} | totals
    return result(name, where, batch, settings, framework, loss, t["logp"], metrics, differs)


def verl_losses(made):
    aggregations = ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"]

    def case(name, where, settings, mode, differs=None, **more):
        return verl_loss(name, where, made[where] | more, settings, mode, differs) | more

    for mode, loss in [("vanilla", "grpo"), ("gspo", "gspo"), ("cispo", "cispo")]:
        for aggregation in aggregations:
            norm = {"max_tokens": 8} if aggregation.endswith("norm") else {}
            settings = verl_settings(loss, aggregation, CLIP, **norm)
            yield case(f"{mode} {aggregation}", "plain", settings, mode)
        mean = verl_settings(loss, "token-mean", CLIP)
        for where in ["empty", "masked", "nothing", "one", "first", "far"]:
            yield case(f"{mode} on `{where}`", where, mean, mode)
        yield case(f"{mode}, sequences on `masked`", "masked", verl_settings(loss, "seq-mean-token-mean", CLIP), mode)
        for level, cap in [("token", 2.0), ("token", 1.0), ("sequence", 1.5)]:
            tis = {"tis": {"cap": cap, "level": level}}
            settings = verl_settings(loss, "token-mean", HIGHER, **tis)
            yield case(f"{mode}, rollout correction by {level} at {cap}", "plain", settings, mode)
        tis = verl_settings(loss, "token-mean", CLIP, tis={"cap": 2.0, "level": "token"})
        yield case(f"{mode}, rollout correction on `far`", "far", tis, mode)
    # What is held before `exp` shows where nothing else bounds it.
    wide = verl_settings("grpo", "token-mean", CLIP | {"c": 1e12})
    yield case("a dual clip out of reach on `far`", "far", wide, "vanilla")
    for level in ["token", "sequence"]:
        settings = wide | {"tis": {"cap": 1e12, "level": level}}
        yield case(f"rollout correction by {level} without a bound on `far`", "far", settings, "vanilla")
    dr = verl_settings("dr_grpo", "seq-mean-token-sum-norm", CLIP, max_tokens=16)
    yield case("dr_grpo", "plain", dr, "vanilla")
    yield case("dapo", "plain", verl_settings("dapo", "token-mean", HIGHER), "vanilla")
    yield case("dual clip", "apart", verl_settings("grpo", "token-mean", CLIP), "vanilla")
    own = verl_settings("gspo", "seq-mean-token-mean", {"low": 3e-4, "high": 4e-4})
    yield case("gspo, its own clip", "near", own, "gspo")
    unbounded = verl_settings("cispo", "token-mean", {"low": 10.0, "high": 4.0})
    yield case("cispo without a lower bound", "apart", unbounded, "cispo")
    for aggregation in ["token-mean", "seq-mean-token-mean"]:
        whole = {"whole": {"tokens": 40, "sequences": 9}}
        settings = verl_settings("grpo", aggregation, CLIP)
        yield case(f"a part of a step, {aggregation}", "plain", settings, "vanilla", **whole)
    for estimator in ["k1", "k2", "k3"]:
        kl = {"estimator": estimator, "beta": 0.25}
        for where in ["plain", "masked", "far"]:
            for aggregation in ["token-mean", "seq-mean-token-mean"]:
                settings = verl_settings("grpo", aggregation, CLIP, kl)
                yield case(f"{estimator} on `{where}`, {aggregation}", where, settings, "vanilla")


def verl_advantages():
    import numpy as np
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    groups = [
        [[1.0, 0.0, 0.5, 0.1]],
        [[0.9, 0.9, 0.9]],
        [[0.7]],
        [[-1.0, 2.0, 2.0], [0.5, 0.25], [0.3]],
    ]
    for rewards in groups:
        for std in ["group", "none"]:
            flat = torch.tensor([r for g in rewards for r in g], dtype=torch.float64).unsqueeze(-1)
            index = np.array([i for i, g in enumerate(rewards) for _ in g])
            found, _ = compute_grpo_outcome_advantage(
                flat.clone(), torch.ones_like(flat), index, norm_adv_by_std_in_grpo=std == "group"
            )
            settings = {"std": std, "eps": 1e-6, "ddof": 1, "single": "raw"}
            yield {"rewards": rewards, "settings": settings, "advantages": found.squeeze(-1).tolist()}


def verl_kl_in_reward(made):
    from tensordict import TensorDict
    from verl.trainer.ppo import core_algos
    from verl.utils.torch_functional import masked_mean

    tree = ast.parse(pathlib.Path(core_algos.__file__).with_name("ray_trainer.py").read_text())
    node = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "apply_kl_penalty")
    names = {"core_algos": core_algos, "masked_mean": masked_mean, "torch": torch, "DataProto": None}
    exec(compile(ast.Module([node], []), "ray_trainer.py", "exec"), names)

    for where in ["plain", "masked", "far"]:
        for estimator in ["k1", "k2", "k3"]:
            t = padded(made[where])
            data = {
                "response_mask": t["mask"],
                "token_level_scores": torch.zeros_like(t["old"]),
                "old_log_probs": t["old"],
                "ref_log_prob": t["reference"],
            }
            data = SimpleNamespace(batch=TensorDict(data, batch_size=[len(t["old"])]))
            controller = core_algos.FixedKLController(0.25)
            data, _ = names["apply_kl_penalty"](data, controller, kl_penalty=estimator)
            rewards = data.batch["token_level_rewards"]
            yield {
                "batch": where,
                "settings": {"estimator": estimator, "beta": 0.25, "term": "reward"},
                "rewards": in_a_row(rewards, made[where]),
                "sequences": rewards.sum(-1).tolist(),
            }


# --- TRL --------------------------------------------------------------------------------------------------------------


def trl_statements(wanted):
    """The first statement of GRPOTrainer._generate_and_score_completions that `wanted` accepts, compiled."""
    from trl import GRPOTrainer

    tree = ast.parse(textwrap.dedent(inspect.getsource(GRPOTrainer._generate_and_score_completions)))
    node = next(n for n in ast.walk(tree) if isinstance(n, ast.stmt) and wanted(n))
    return compile(ast.Module([node], []), "grpo_trainer.py", "exec")


def trl_run(code, **names):
    from trl.trainer import grpo_trainer

    names = vars(grpo_trainer) | names
    exec(code, names)
    return names


def trl_weights(t, tis):
    code = trl_statements(
        lambda n: isinstance(n, ast.If)
        and ast.unparse(n.test) == "self.use_vllm and self.vllm_importance_sampling_correction"
        and "per_token_logps_diff" in ast.unparse(n)
    )
    trainer = SimpleNamespace(
        use_vllm=True,
        vllm_importance_sampling_correction=True,
        vllm_importance_sampling_mode=f"{tis['level']}_truncate",
        vllm_importance_sampling_clip_min=None,
        vllm_importance_sampling_clip_max=tis["cap"],
    )
    names = trl_run(
        code,
        self=trainer,
        completion_mask=t["mask"].long(),
        tool_mask=None,
        old_per_token_logps=t["old"],
        sampling_per_token_logps=t["sampler"],
    )
    return names["vllm_importance_sampling_ratio"]


def trl_loss(name, where, batch, settings, kind, level="token", differs=None):
    from trl import GRPOTrainer

    t = padded(batch)
    clip, kl = settings["clip"], settings["kl"]
    mask = t["mask"].long()
    same = lambda x, **_: x
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (t["logp"], torch.zeros_like(t["logp"]), None),
        accelerator=SimpleNamespace(num_processes=1, reduce=same, gather=same, gather_for_metrics=same),
        args=SimpleNamespace(delta=clip.get("c"), use_bias_correction_kl=False, steps_per_generation=1),
        model=SimpleNamespace(training=True),
        loss_type=kind,
        importance_sampling_level=level,
        epsilon_low=clip["low"],
        # TRL's cispo takes the bound itself.
        epsilon_high=1 + clip["high"] if kind == "cispo" else clip["high"],
        beta=kl["beta"],
        max_completion_length=settings.get("max_tokens"),
        use_vllm="tis" in settings,
        vllm_importance_sampling_correction=True,
        current_gradient_accumulation_steps=1,
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
    )
    inputs = {
        "prompt_ids": mask[:, :0],
        "prompt_mask": mask[:, :0],
        "completion_ids": mask,
        "completion_mask": mask,
        "advantages": t["advantages"],
        "old_per_token_logps": t["old"],
        "ref_per_token_logps": t["reference"],
        "num_items_in_batch": mask.sum(),
    }
    framework = {"loss_type": kind, "importance_sampling_level": level, "epsilon": clip["low"]}
    framework |= {"epsilon_high": trainer.epsilon_high, "delta": trainer.args.delta, "beta": kl["beta"]}
    if "tis" in settings:
        inputs["importance_sampling_ratio"] = trl_weights(t, settings["tis"])
        framework |= {"vllm_importance_sampling_mode": f"{settings['tis']['level']}_truncate"}
        framework |= {"vllm_importance_sampling_clip_max": settings["tis"]["cap"]}
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    kept = ["kl", "clip_ratio/low_mean", "clip_ratio/high_mean"]
    # At the level of sequences TRL counts clipped sequences, those without a token among them.
    kept = kept if level == "token" else kept[:1]
    metrics = {k: v[-1] for k, v in trainer._metrics["train"].items() if k in kept}
    # TRL's mean over sequences counts those without a token.
    whole = {"tokens": int(mask.sum()), "sequences": len(batch["lengths"])}
    made = result(name, where, batch, settings, framework, loss, t["logp"], metrics, differs)
    return made | {"whole": whole}


def trl_losses(made):
    def settings(loss, aggregation=None, clip=CLIP, kl=OFF, **more):
        given = {"aggregation": aggregation} if aggregation else {}
        return {"loss": loss, "clip": clip, "kl": kl, **given, **more}

    def case(name, where, *rest, **more):
        return trl_loss(name, where, made[where], *rest, **more)

    kinds = [
        ("grpo", "token", settings("grpo")),
        ("bnpo", "token", settings("grpo", "token-mean")),
        ("dr_grpo", "token", settings("dr_grpo", max_tokens=16)),
        ("dapo", "token", settings("dapo", clip=HIGHER)),
        ("cispo", "token", settings("cispo", clip={"low": 1.0, "high": 0.5})),
        ("cispo", "sequence", settings("cispo", clip={"low": 1.0, "high": 0.1}, ratio="sequence")),
        ("grpo", "sequence", settings("gspo", clip={"low": 0.03, "high": 0.04})),
        ("dapo", "sequence", settings("gspo", "token-mean", clip={"low": 0.03, "high": 0.04})),
        ("luspo", "sequence", settings("gspo", "seq-mean-token-sum", clip={"low": 0.03, "high": 0.04})),
    ]
    for kind, level, given in kinds:
        for where in ["plain", "empty", "masked", "nothing", "one", "first"]:
            yield case(f"{kind} by {level} on `{where}`", where, given, kind, level=level)
        tis = given | {"tis": {"cap": 1.5, "level": "sequence"}}
        yield case(f"{kind} by {level}, weights of sequences", "plain", tis, kind, level=level)
        tis = given | {"tis": {"cap": 1.5, "level": "token"}}
        differs = "TRL gives each token the mean weight of its sequence, tracemill as verl its own"
        differs = differs if level == "sequence" and kind != "cispo" else None
        yield case(f"{kind} by {level}, weights of tokens", "plain", tis, kind, level=level, differs=differs)
        kl = given | {"kl": {"estimator": "k3", "beta": 0.25, "cap": 0.0}}
        yield case(f"{kind} by {level}, with a KL term", "masked", kl, kind, level=level)
    yield case("delta", "apart", settings("grpo", clip=CLIP | {"c": 3.0}), "grpo")
    own = settings("gspo", clip={"low": 3e-4, "high": 4e-4})
    yield case("gspo, its own clip", "near", own, "grpo", level="sequence")
    yield case("far", "far", settings("grpo"), "grpo", differs="TRL does not hold log-ratios within ±20")


def trl_advantages():
    unscorable = trl_statements(
        lambda n: isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "unscorable_mask"
    )
    normalise = trl_statements(
        lambda n: isinstance(n, ast.If)
        and ast.unparse(n.test) == "self.multi_objective_aggregation == 'sum_then_normalize'"
    )
    last = trl_statements(
        lambda n: isinstance(n, ast.Assign) and "torch.nan_to_num(advantages" in ast.unparse(n)
    )
    groups = [
        [[1.0, 0.0, 0.5, 0.1]],
        [[0.75, 0.75, 0.75], [1.0, 0.0, 0.5]],
        [[0.7], [0.2], [0.9]],
        [[-1.0, 2.0, None], [0.5, 0.25, 0.75], [None, None, 0.5], [None, None, None]],
    ]
    for rewards in groups:
        for std in ["group", "batch", "none"]:
            flat = [math.nan if r is None else r for g in rewards for r in g]
            names = {
                "self": SimpleNamespace(
                    multi_objective_aggregation="sum_then_normalize",
                    scale_rewards=std,
                    reward_weights=torch.ones(1, dtype=torch.float64),
                ),
                "rewards_per_func": torch.tensor(flat, dtype=torch.float64).unsqueeze(-1),
                "num_generations": len(rewards[0]),
                "device": "cpu",
            }
            for code in [unscorable, normalise, last]:
                names = trl_run(code, **names)
            settings = {"std": std, "eps": 1e-4, "ddof": 1, "single": "zero"}
            yield {"rewards": rewards, "settings": settings, "advantages": names["advantages"].tolist()}


# --- files ------------------------------------------------------------------------------------------------------------


def without_nan(value):
    if isinstance(value, dict):
        return {k: without_nan(v) for k, v in value.items()}
    if isinstance(value, list):
        return [without_nan(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def text(value, depth=0):
    """JSON with one line for each field of the upper three levels."""
    if depth < 3 and isinstance(value, (dict, list)) and value:
        pad, (opening, closing) = "  " * depth, "{}" if isinstance(value, dict) else "[]"
        items = value.items() if isinstance(value, dict) else ((None, v) for v in value)
        lines = [(f"{json.dumps(k)}: " if k is not None else "") + text(v, depth + 1) for k, v in items]
        return opening + ",".join(f"\n{pad}  {line}" for line in lines) + f"\n{pad}{closing}"
    return json.dumps(without_nan(value), allow_nan=False)


def main(framework):
    torch.set_num_threads(1)
    made = batches()
    content = {"source": f"{framework} {version(framework)}, torch {version('torch')}", "batches": made}
    if framework == "verl":
        content |= {"advantages": list(verl_advantages()), "losses": list(verl_losses(made))}
        content |= {"kl_in_reward": list(verl_kl_in_reward(made))}
    else:
        content |= {"advantages": list(trl_advantages()), "losses": list(trl_losses(made))}
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{framework}.json"
    path.write_text(text(without_nan(content)) + "\n")
    print(f"{path}: {len(content['losses'])} losses, {len(content['advantages'])} advantages")


if __name__ == "__main__":
    main(sys.argv[1])
