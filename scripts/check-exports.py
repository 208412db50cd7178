#!/usr/bin/env python3
"""Loads exported datasets with the frameworks they are for: check-exports.py DIR [--framework NAME] [--tokenizer PATH]

DIR holds folders named KIND-ROLE-TARGET, such as sft-coordinator-trl. Each is read by its framework's own code, as far
as training reads it, and every row of its files must come out. What is checked:

  datasets       every file loads, and TRL's pictures decode (not openai, which is for an upload)
  trl            SFTTrainer's batches; one epoch of GRPOTrainer on a tiny random model, with a stand-in reward
  llama-factory  get_dataset; a warning of its data code is a failure
  verl           MultiTurnSFTDataset; RLHFDataset with grpo.yaml composed by Hydra, and the reward function's file
  ms-swift       load_dataset, Template.encode and the reward plugin
  openai         the documented form of fine-tuning files (no package is needed)

A framework that is not installed is listed as such, and fails the run if it was named. Their requirements exclude each
other, so each wants an environment of its own. These work with Python 3.11 on a CPU:

  python3 -m venv trl   && trl/bin/pip install trl==1.16.0 torchvision pillow
  python3 -m venv lf    && lf/bin/pip install llamafactory==0.9.5 torch==2.11.0 torchvision==0.26.0 torchaudio==2.11.0
  python3 -m venv verl  && verl/bin/pip install verl==0.9.1 torchvision pillow qwen-vl-utils
  python3 -m venv swift && swift/bin/pip install ms-swift==4.6.0 torchvision qwen-vl-utils

`datasets` comes with each of them. Run this script once with each environment's Python, and name its framework:
LLaMA-Factory and ms-swift bring an older TRL, which is not what --framework trl is to check.

Nothing is downloaded. Without --tokenizer, a byte-level tokenizer and a Qwen2.5-VL processor for small pictures are
made on the spot, and prompts may be of any length. With it, verl's limit on prompts is that of grpo.yaml.
"""

import argparse
import base64
import importlib.metadata
import importlib.util
import json
import logging
import os
import re
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

FOLDER = re.compile(r"(sft|rl)-(coordinator|state-tracker)-(trl|llama-factory|verl|ms-swift|openai)")
SPLITS = ("train", "test")
NO_LIMIT = 1 << 20


@dataclass
class Export:
    """One exported folder."""

    path: Path
    kind: str
    role: str
    target: str

    def file(self, split):
        """The file of a split."""
        (file,) = [f for f in self.path.rglob(f"{split}*") if f.suffix in (".json", ".jsonl", ".parquet")]
        return file

    def rows(self, split):
        """The rows of a split as plain Python, read without any framework."""
        file = self.file(split)
        if file.suffix == ".parquet":
            import pyarrow.parquet

            return pyarrow.parquet.read_table(file).to_pylist()
        text = file.read_text(encoding="utf-8")
        return json.loads(text) if file.suffix == ".json" else [json.loads(line) for line in text.split("\n") if line]

    def has_images(self):
        """Whether any row has a picture."""
        return any(row.get("images") for split in SPLITS for row in self.rows(split))


class NotInstalled(Exception):
    """The framework cannot be imported here."""


# --- Tokenizer, processor and model ---------------------------------------------------------------------------------

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}"
    "{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL_TOKENS = "<|endoftext|> <|im_start|> <|im_end|> <|vision_start|> <|vision_end|> <|image_pad|> <|video_pad|>"
SMALL_PICTURE = {"shortest_edge": 56 * 56, "longest_edge": 112 * 112}
TINY = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
TINY_VISION = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 16}


def make_tokenizer():
    """A tokenizer whose tokens are bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(SPECIAL_TOKENS.split())
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT_TEMPLATE
    )


def tiny_config(tokenizer, vision):
    """The configuration of a model that is small enough to train in passing."""
    from transformers import Qwen2_5_VLConfig, Qwen2Config

    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
    text = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None, **TINY}
    if not vision:
        return Qwen2Config(**text, architectures=["Qwen2ForCausalLM"])
    ids = {
        f"{name}_token_id": tokenizer.convert_tokens_to_ids(f"<|{name}|>") for name in ("vision_start", "vision_end")
    }
    ids |= {f"{name}_token_id": tokenizer.convert_tokens_to_ids(f"<|{name}_pad|>") for name in ("image", "video")}
    text |= {"rope_parameters": rope, "rope_scaling": rope}
    return Qwen2_5_VLConfig(
        text_config=text, vision_config=TINY_VISION, architectures=["Qwen2_5_VLForConditionalGeneration"], **ids
    )


def make_model_folder(folder, vision):
    """Writes tokenizer, configuration and, for pictures, the processor of a model that has no weights."""
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    tiny_config(tokenizer, vision).save_pretrained(folder)
    if vision:
        from transformers import Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

        processor = Qwen2_5_VLProcessor(
            image_processor=Qwen2VLImageProcessor(size=SMALL_PICTURE),
            tokenizer=tokenizer,
            video_processor=Qwen2VLVideoProcessor(),
            chat_template=CHAT_TEMPLATE,
        )
        processor.save_pretrained(folder)


@dataclass
class Setting:
    """What the checks work with."""

    tokenizer: str | None
    scratch: Path

    def model_folder(self, vision):
        """A folder with a tokenizer and, where `vision`, a processor."""
        if self.tokenizer:
            return self.tokenizer
        folder = self.scratch / ("vision" if vision else "text")
        if not folder.exists():
            make_model_folder(folder, vision)
        return str(folder)

    def processing(self, vision):
        """Tokenizer and processor; the latter is None for text."""
        from transformers import AutoProcessor, AutoTokenizer

        folder = self.model_folder(vision)
        return AutoTokenizer.from_pretrained(folder), AutoProcessor.from_pretrained(folder) if vision else None


# --- The checks: each raises on a failure -----------------------------------------------------------------------------


def require(condition, message):
    """Fails the check."""
    if not condition:
        raise AssertionError(message)


def require_rows(split, found, wanted):
    """Fails the check when rows are missing."""
    require(found == wanted, f"{split}: {found} of {wanted} rows came out")


def check_datasets(export, setting):
    """Every file loads, with pictures decoded."""
    from datasets import Image, load_dataset

    if export.target == "trl":
        loaded = load_dataset(str(export.path))
    else:
        loader = "parquet" if export.target == "verl" else "json"
        loaded = load_dataset(loader, data_files={split: str(export.file(split)) for split in SPLITS})
    for split in SPLITS:
        wanted = export.rows(split)
        require_rows(split, sum(1 for _ in loaded[split]), len(wanted))
        if export.target == "trl" and export.has_images():
            feature = loaded[split].features["images"]
            require(isinstance(getattr(feature, "feature", None), Image), f"{split}: images are {feature}")


def tiny_model(setting, vision):
    """A random model."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    tokenizer, _ = setting.processing(vision)
    family = AutoModelForImageTextToText if vision else AutoModelForCausalLM
    return family.from_config(tiny_config(tokenizer, vision))


def trainer_options(setting):
    """What both trainers of TRL are given."""
    return {
        "output_dir": str(setting.scratch / "trainer"),
        "report_to": [],
        "save_strategy": "no",
        "logging_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    }


def check_trl(export, setting):
    """The trainers take the rows."""
    from datasets import load_dataset

    vision = export.has_images()
    tokenizer, processor = setting.processing(vision)
    check = check_trl_sft if export.kind == "sft" else check_trl_rl
    for split in SPLITS:
        dataset = load_dataset(str(export.path), split=split)
        check(export, setting, split, dataset, processor or tokenizer, tiny_model(setting, vision))


def check_trl_sft(export, setting, split, dataset, processing, model):
    """Every row is in a batch, and has tokens to learn."""
    from trl import SFTConfig, SFTTrainer

    config = SFTConfig(max_length=None, per_device_train_batch_size=2, **trainer_options(setting))
    trainer = SFTTrainer(model=model, args=config, train_dataset=dataset, processing_class=processing)
    found = 0
    for batch in trainer.get_train_dataloader():
        require((batch["labels"] != -100).any(dim=1).all(), f"{split}: a row has no tokens to learn")
        found += len(batch["input_ids"])
    require_rows(split, found, len(export.rows(split)))


def check_trl_rl(export, setting, split, dataset, processing, model):
    """Every row is generated for, and comes to the reward function with its ground truth."""
    from trl import GRPOConfig, GRPOTrainer

    wanted = {row["id"]: row["ground_truth"] for row in export.rows(split)}
    require(callable(load_reward(export).tracemill_reward), "tracemill_reward.py has no tracemill_reward")
    seen = {}

    def reward(completions, ground_truth, id, **kwargs):  # noqa: A002
        seen.update(zip(id, ground_truth, strict=True))
        return [float(len(completion)) for completion in completions]

    # A random model would now and then write the token that stands for a picture.
    tokens = sorted(setting.processing(export.has_images())[0].added_tokens_decoder)
    config = GRPOConfig(
        max_completion_length=2,
        num_generations=2,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=1,
        num_train_epochs=1,
        generation_kwargs={"suppress_tokens": tokens},
        **trainer_options(setting),
    )
    trainer = GRPOTrainer(
        model=model, reward_funcs=reward, args=config, train_dataset=dataset, processing_class=processing
    )
    trainer.train()
    require_rows(split, len(seen), len(export.rows(split)))
    require(seen == wanted, f"{split}: the reward function got another ground truth than the file has")


class Warnings(logging.Handler):
    """Collects warnings."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.seen = []

    def emit(self, record):
        self.seen.append(record.getMessage())


def check_llama_factory(export, setting):
    """`get_dataset` takes every row without a warning."""
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer

    vision = export.has_images()
    warnings = Warnings()
    for name in ("loader", "converter", "parser", "mm_plugin", "processor.supervised"):
        logging.getLogger(f"llamafactory.data.{name}").addHandler(warnings)
    for split in SPLITS:
        arguments = {
            "model_name_or_path": setting.model_folder(vision),
            "template": "qwen2_vl" if vision else "qwen",
            "stage": "sft",
            "finetuning_type": "lora",
            "do_train": True,
            "dataset_dir": str(export.path),
            "dataset": dataset_name(export, split),
            "cutoff_len": NO_LIMIT,
            "output_dir": str(setting.scratch / "llama-factory"),
            "overwrite_cache": True,
            "report_to": "none",
        }
        model_args, data_args, training_args, _, _ = get_train_args(arguments)
        tokenizers = load_tokenizer(model_args)
        template = get_template_and_fix_tokenizer(tokenizers["tokenizer"], data_args)
        module = get_dataset(template, model_args, data_args, training_args, stage="sft", **tokenizers)
        loaded, wanted = module["train_dataset"], export.rows(split)
        require(not warnings.seen, f"{split}: {warnings.seen[:3]}")
        require_rows(split, len(loaded), len(wanted))
        for got, row in zip(loaded, wanted, strict=True):
            require(any(label != -100 for label in got["labels"]), f"{split}: a row has no tokens to learn")
            pictures = len(got["images"] or []), len(row.get("images") or [])
            require(pictures[0] == pictures[1], f"{split}: {pictures[0]} of {pictures[1]} pictures came out")


def dataset_name(export, split):
    """What dataset_info.json calls a split."""
    info = json.loads((export.path / "dataset_info.json").read_text(encoding="utf-8"))
    (name,) = [name for name, entry in info.items() if entry["file_name"] == export.file(split).name]
    return name


def check_verl(export, setting):
    """The datasets of verl take every row."""
    check = check_verl_sft if export.kind == "sft" else check_verl_rl
    check(export, setting, *setting.processing(export.has_images()))


def check_verl_sft(export, setting, tokenizer, processor):
    """Every row has tokens to learn."""
    from omegaconf import OmegaConf
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    config = OmegaConf.create({"pad_mode": "no_padding", "max_length": NO_LIMIT, "truncation": "error"})
    for split in SPLITS:
        dataset = MultiTurnSFTDataset(str(export.file(split)), tokenizer, config, processor)
        rows = [dataset[i] for i in range(len(dataset))]
        require_rows(split, len(rows), len(export.rows(split)))
        require(all(row["loss_mask"].any() for row in rows), f"{split}: a row has no tokens to learn")
        with_pictures = sum("pixel_values" in row.get("multi_modal_inputs", {}) for row in rows)
        require(with_pictures == sum(bool(row.get("images")) for row in export.rows(split)), f"{split}: pictures lost")


def check_verl_rl(export, setting, tokenizer, processor):
    """grpo.yaml composes, no prompt is filtered out, rows can be batched, and the reward function is found."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    with initialize_config_dir(str(export.path), version_base=None):
        config = compose("grpo", overrides=[f"folder={export.path}"])
    OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    validate_config(config, need_reference_policy(config), need_critic(config))
    require(callable(get_custom_reward_fn(config)), "grpo.yaml names no reward function")
    if not setting.tokenizer:
        config.data.max_prompt_length = NO_LIMIT
    config.data.filter_overlong_prompts = True
    files = {"train": config.data.train_files, "test": config.data.val_files}
    for split in SPLITS:
        dataset = RLHFDataset(files[split], tokenizer, config.data, processor)
        wanted = export.rows(split)
        require_rows(split, len(dataset), len(wanted))
        batch = collate_fn([dataset[i] for i in range(len(dataset))])
        truths = [model["ground_truth"] for model in batch["reward_model"]]
        require(truths == [row["reward_model"]["ground_truth"] for row in wanted], f"{split}: ground truths differ")
        require(len(set(batch["index"])) == len(wanted), f"{split}: extra_info.index is not unique")
        for messages, row in zip(batch["raw_prompt"], wanted, strict=True):
            parts = [
                part for message in messages if isinstance(message["content"], list) for part in message["content"]
            ]
            pictures = sum(part["type"] == "image" for part in parts)
            require(pictures == len(row.get("images") or []), f"{split}: pictures lost")


def check_ms_swift(export, setting):
    """`load_dataset` keeps every row and what the reward needs; each row can be encoded."""
    from swift.dataset import load_dataset
    from swift.model import get_processor
    from swift.rewards import orms
    from swift.template import get_template
    from swift.utils.utils import import_external_file

    vision = export.has_images()
    # Paths of pictures count from here.
    os.environ["ROOT_IMAGE_DIR"] = str(export.path)
    model_type = "qwen2_5_vl" if vision else "qwen2"
    processor = get_processor(setting.model_folder(vision), model_type=model_type, download_model=False)
    template = get_template(processor, template_type="qwen2_5_vl" if vision else "qwen2_5")
    template.set_mode("train" if export.kind == "sft" else "vllm")
    if export.kind == "rl":
        import_external_file(str(export.path / "plugin.py"))
        require(callable(orms["tracemill"]()), "plugin.py registers no reward")
    for split in SPLITS:
        # GRPO keeps columns that are not its own; so does this.
        loaded, _ = load_dataset([str(export.file(split))], remove_unused_columns=export.kind == "sft")
        wanted = export.rows(split)
        require_rows(split, len(loaded), len(wanted))
        for got, row in zip(loaded, wanted, strict=True):
            require(got.get("solution") == row.get("solution"), f"{split}: the solution was lost")
            pictures = len(got.get("images") or []), len(row.get("images") or [])
            require(pictures[0] == pictures[1], f"{split}: {pictures[0]} of {pictures[1]} pictures came out")
            markers = sum(message["content"].count("<image>") for message in got["messages"])
            require(markers == pictures[0], f"{split}: {markers} markers for {pictures[0]} pictures")
            encoded = template.encode(dict(got))
            if export.kind == "sft":
                require(any(label != -100 for label in encoded["labels"]), f"{split}: a row has no tokens to learn")


def check_openai(export, setting):
    """Rows have the documented form: https://developers.openai.com/api/docs/guides/supervised-fine-tuning"""
    for split in SPLITS:
        for number, row in enumerate(export.rows(split), 1):
            try:
                check_openai_row(row, export.kind)
            except (AssertionError, KeyError, TypeError, ValueError) as error:
                raise AssertionError(f"{split}, line {number}: {error!r}") from error


def check_openai_row(row, kind):
    """One example. Reinforcement rows end with the user, and may carry fields for the grader."""
    if kind == "sft":
        extra = set(row) - {"messages", "tools", "parallel_tool_calls"}
        require(not extra, f"unknown keys {sorted(extra)}")
    messages = row["messages"]
    last = "assistant" if kind == "sft" else "user"
    require(messages and messages[-1]["role"] == last, f"the last message is not the {last}'s")
    pictures = 0
    for message in messages:
        require(not set(message) - {"role", "content", "name", "weight"}, f"unknown keys in {sorted(message)}")
        require(message["role"] in ("system", "developer", "user", "assistant"), f"role {message['role']}")
        if isinstance(message["content"], str):
            continue
        require(message["role"] == "user", "only the user's content may have parts")
        pictures += sum(check_openai_part(part) for part in message["content"])
    require(pictures <= 10, f"{pictures} pictures in an example, of at most 10")


def check_openai_part(part):
    """One part of a message; returns whether it is a picture."""
    if part["type"] == "text":
        require(isinstance(part["text"], str) and set(part) == {"type", "text"}, f"bad text part {sorted(part)}")
        return False
    require(part["type"] == "image_url" and set(part) == {"type", "image_url"}, f"bad part {sorted(part)}")
    require(not set(part["image_url"]) - {"url", "detail"}, f"bad image_url {sorted(part['image_url'])}")
    url = part["image_url"]["url"]
    if url.startswith("data:"):
        head, _, data = url.partition(",")
        form = re.fullmatch(r"data:image/(png|jpeg|webp);base64", head)
        require(form, f"a picture's URL begins with {head}")
        picture = base64.b64decode(data, validate=True)
        require(len(picture) <= 10 << 20, f"a picture of {len(picture)} bytes, of at most 10 MiB")
        magic = {"png": b"\x89PNG", "jpeg": b"\xff\xd8\xff", "webp": b"RIFF"}[form[1]]
        require(picture.startswith(magic), f"a picture that is no {form[1]}")
    else:
        require(url.startswith("https://"), "a picture's URL is neither data nor https")
    return True


def load_reward(export):
    """The reward functions that lie in the folder."""
    spec = importlib.util.spec_from_file_location("exported_reward", export.path / "tracemill_reward.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- The run --------------------------------------------------------------------------------------------------------

# Name, package and module to import, check.
FRAMEWORKS = {
    "datasets": ("datasets", "datasets", check_datasets),
    "trl": ("trl", "trl", check_trl),
    "llama-factory": ("llamafactory", "llamafactory", check_llama_factory),
    "verl": ("verl", "verl", check_verl),
    "ms-swift": ("ms-swift", "swift", check_ms_swift),
    "openai": (None, None, check_openai),
}


def version_of(name):
    """A framework's version; raises `NotInstalled`."""
    package, module, _ = FRAMEWORKS[name]
    if package is None:
        return "documented"
    try:
        importlib.import_module(module)
        return importlib.metadata.version(package)
    except (ImportError, importlib.metadata.PackageNotFoundError) as error:
        raise NotInstalled(str(error)) from error


def targets_of(name):
    """The targets whose folders a framework reads."""
    return ("trl", "llama-factory", "verl", "ms-swift") if name == "datasets" else (name,)


def check_folder(name, export, setting):
    """The result of one folder, as the table shows it."""
    try:
        FRAMEWORKS[name][2](export, setting)
        return "loads"
    except Exception as error:
        traceback.print_exc()
        return f"FAILED: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def run(directory, names, setting, must_be_installed):
    """Checks every folder; returns the table's lines, and whether all is well."""
    exports = []
    for path in sorted(directory.resolve().iterdir()):
        named = FOLDER.fullmatch(path.name)
        if named and path.is_dir():
            exports.append(Export(path, *named.groups()))
    lines, well = [], True
    for name in names:
        mine = [export for export in exports if export.target in targets_of(name)]
        try:
            version = version_of(name)
        except NotInstalled as error:
            lines.append((name, "-", "-", "-", f"not installed ({error})"))
            well &= not must_be_installed
            continue
        if not mine:
            lines.append((name, version, "-", "-", "no folder"))
            well &= not must_be_installed
        for export in mine:
            result = check_folder(name, export, setting)
            well &= result == "loads"
            try:
                rows = " + ".join(str(len(export.rows(split))) for split in SPLITS)
            except Exception:
                rows = "?"
            lines.append((name, version, export.path.name, rows, result))
    return lines, well and any(result == "loads" for *_, result in lines)


def print_table(lines):
    """Prints lines in columns."""
    lines = [("framework", "version", "folder", "rows", "result"), *lines]
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    for line in lines:
        print(" | ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]))


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("directory", metavar="DIR", type=Path, help="folder with the exported folders")
    parser.add_argument("--framework", choices=[*FRAMEWORKS, "all"], default="all")
    parser.add_argument("--tokenizer", metavar="PATH", help="folder of a tokenizer; for pictures, of Qwen2.5-VL's kind")
    args = parser.parse_args()
    names = list(FRAMEWORKS) if args.framework == "all" else [args.framework]
    with tempfile.TemporaryDirectory() as scratch:
        # Nothing is taken from an older run, nor from the network.
        for variable in ("HF_HOME", "HF_DATASETS_CACHE", "MODELSCOPE_CACHE"):
            os.environ[variable] = f"{scratch}/{variable}"
        os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
        setting = Setting(args.tokenizer, Path(scratch))
        lines, well = run(args.directory, names, setting, args.framework != "all")
    print_table(lines)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
