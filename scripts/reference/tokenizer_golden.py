"""Regenerates tests/golden/policy/{tokenizer,templates}.json: token ids and rendered chats by transformers.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install transformers gguf trl
    scripts/fetch-models.sh smollm2 qwen2.5-coder-0.5b
    /tmp/venv/bin/python scripts/reference/tokenizer_golden.py

Ids. transformers reads vocabulary, merges and added tokens from the GGUF file. What a GGUF file only names, the
pre-tokenizer and the normalizer, is set here to what the family's tokenizer.json has: transformers leaves them out
(SmolLM2's Digits, Qwen2's NFC). FACTS pins ids that were published elsewhere for the genuine tokenizers: by llama.cpp,
whose models/ggml-vocab-{smollm,qwen2}.gguf.out come from the genuine files. The `tiny` vocabulary is trained here without
any pre-tokenizer, so its merges reach over every border that a pre-tokenizer should draw.

Chats. The templates are those inside the two GGUF files, three that TRL carries (Apache-2.0: Qwen3, Qwen3-VL, and TRL's
own for training), and small ones written here in well-known forms.
"""

import datetime
import json
import os
import pathlib

import transformers
import transformers.utils.chat_template_utils as chat_template_utils
import trl
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE
from transformers import AutoTokenizer
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX as QWEN2

ROOT = pathlib.Path(__file__).parents[2]
MODELS = {
    "smollm": ("SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct.Q4_1.gguf"),
    "qwen2": ("Qwen2.5-Coder-0.5B-Instruct", "Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf"),
}
# tokenizer.json of Llama 3; TikTokenConverter of transformers has the same.
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

FACTS = {
    "smollm": {
        "hello": [28120],
        "ied 4 ½ months": [885, 216, 36, 216, 16738, 2704],
        " Hello\n Hello": [38699, 198, 38699],
        "' era": [23, 5741],
        "3333": [35, 35, 35, 35],
        "\n =": [198, 446],
        "Hello, world!": [19556, 28, 905, 17],
    },
    "qwen2": {
        "Führer": [37, 50753, 261],
        "ied 4 ½ months": [1122, 220, 19, 220, 26062, 3951],
        "' era": [6, 11385],
        "3333": [18, 18, 18, 18],
        "\n =": [198, 284],
        "Hello, world!": [9707, 11, 1879, 0],
        "w048 7tuijk dsdfhu": [86, 15, 19, 23, 220, 22, 83, 1963, 41808, 11472, 2940, 16739],
    },
}

TEXTS = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n ", "a\n\n\n b", "hello", " hello", "hello ", "  two  spaces  ",
    "12345", "3.14159", "a  1", "  42 items", "1's", "½ and ² and Ⅳ and ٣", "don't we'll I'M they'RE",
    "The quick brown fox jumps over the lazy dog.", "Überprüfe café naïve Ångström", "cafe\u0301 e\u0301",
    "打开浏览器并搜索天气", "日本語のテキスト、カタカナ", "한국어 텍스트", "Привет, мир", "مرحبا بالعالم", "कृपया मदद करें",
    "🙂👍🏽 👩‍👩‍👧 🇩🇪", "a\u200bb\u00a0c\u3000d", "\u0000\u0007\ufeff", "…!? -- () [] {} <> ``` \"\" ''",
    "def f(x):\n    return x ** 2  # comment\n\n\tif x:\n\t\tpass\n", '{"action": "click", "point": [512, 38]}',
    "CLICK(x=12, y=340)\nTYPE \"café\"", "https://example.com/a_b?c=d&e=%20#f", "Antidisestablishmentarianism" * 12,
    "a" * 300, " " * 70 + "x", "<|im_start|>user\nHi<|im_end|>\n", "<|im_end|>", "a<|im_end|>b", " <|im_start|> ",
    "<|im_start", "<tool_call>{}</tool_call>", "<|endoftext|><|endoftext|>", "<repo_name>x<empty_output>", "<think>\n\n</think>",
]

TINY_CORPUS = [
    "the man said 12345 things, don't they? I'LL say 2024 12 12 12 345.\n\nWe've 1  2  3\n\n  and they're\r\n\r\n  done",
    "caf\u00e9 caf\u00e9 na\u00efve caf\u00e9s 123 456 12's 345 words words  words   words\n\nwords \n words\t\twords",
    "def f(x):\n    return x ** 2\n\nfoo(1, 2, 3); bar[12] = 345 ... !!! ??? 中文 中文字 🙂🙂",
] * 3
TINY_SPECIAL = [("<|endoftext|>", True), ("<|im_start|>", True), ("<|im_end|>", True), ("<think>", False)]


def cache(name):
    base = os.environ.get("TRACEMILL_CACHE")
    if base is None:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tracemill")
    return pathlib.Path(base) / "models" / name


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=use_regex)


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(False)])


FAMILIES = {
    "smollm": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)]), False),
    "qwen2": (normalizers.NFC(), split(QWEN2), False),
    "llama-bpe": (None, split(LLAMA3), True),
    "gpt-2": (None, byte_level(True), False),
}


def plain(tokenizer):
    """The same tokenizer without added tokens."""
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(state))


def encoded(tokenizer, texts):
    spelt = plain(tokenizer)
    cases = []
    for text in texts:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=True)}
        without = spelt.encode(text, add_special_tokens=False).ids
        if without != ids:
            case["plain"] = without
        cases.append(case)
    return cases


def from_gguf(pre):
    folder, file = MODELS[pre]
    loaded = AutoTokenizer.from_pretrained(cache(folder), gguf_file=file)
    normalizer, pre_tokenizer, _ = FAMILIES[pre]
    loaded.backend_tokenizer.normalizer = normalizer
    loaded.backend_tokenizer.pre_tokenizer = pre_tokenizer
    for text, ids in FACTS[pre].items():
        found = loaded.encode(text, add_special_tokens=False)
        assert found == ids, f"{pre}: {text!r} gives {found}, published are {ids}"
    return loaded


def tiny():
    trained = Tokenizer(BPE())
    trained.pre_tokenizer = byte_level(False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator(TINY_CORPUS, trainers.BpeTrainer(
        vocab_size=460, initial_alphabet=sorted(alphabet), max_token_length=6, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    vocab = model["vocab"]
    merges = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
    # A token that no merge makes: only a family that takes whole words finds it.
    for token in ["zigzag", *(token for token, _ in TINY_SPECIAL)]:
        vocab[token] = len(vocab)
    families, as_json = [], None
    for pre, (normalizer, pre_tokenizer, whole) in FAMILIES.items():
        tokenizer = Tokenizer(BPE(vocab=vocab, merges=[tuple(m) for m in merges], ignore_merges=whole))
        if normalizer is not None:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_tokens([AddedToken(t, special=s, normalized=False) for t, s in TINY_SPECIAL])
        families.append({"pre": pre, "cases": encoded(tokenizer, [*TEXTS, *TINY_CORPUS[:3], "zigzag zigzag"])})
        if pre == "qwen2":
            as_json = json.loads(tokenizer.to_str())
    tokens = sorted(vocab, key=vocab.get)
    return {"tokens": tokens, "merges": [" ".join(m) for m in merges], "families": families, "json": as_json}


class Fixed(datetime.datetime):
    """The moment that strftime_now tells."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 5, 14, 3, 9)


USER = [{"role": "user", "content": "Open the settings"}]
SYSTEM = [{"role": "system", "content": "You are a planner. "}, *USER]
LONG = [*SYSTEM, {"role": "assistant", "content": " <think>\nfirst\n</think>\n\nCLICK(3, 4)\n"},
        {"role": "user", "content": "  And\nnow? <b>&\"'é🙂 "}]
ANSWERED = [*LONG, {"role": "assistant", "content": "DONE"}]
THOUGHT = [*LONG, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nDONE"}]
PARTS = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}, {"type": "text", "text": " Say."}]}]
TOOLS = [{"type": "function", "function": {"name": "click", "description": "Click <here> & \"there\": é", "parameters": {
    "type": "object", "properties": {"z": {"type": "number", "default": 1.5e-07, "maximum": 1e16}, "a": {
        "type": "array", "items": {"type": "integer"}, "empty": [], "none": None, "yes": True}}, "required": ["z"]}}}]
CHATS = [
    {"messages": USER, "add_generation_prompt": True},
    {"messages": SYSTEM, "add_generation_prompt": True},
    {"messages": LONG, "add_generation_prompt": True},
    {"messages": ANSWERED, "add_generation_prompt": False},
    {"messages": THOUGHT, "add_generation_prompt": False},
    {"messages": SYSTEM, "add_generation_prompt": True, "tools": TOOLS},
    {"messages": USER, "add_generation_prompt": True, "extra": {"enable_thinking": False}},
]
SEEING = [{"messages": PARTS, "add_generation_prompt": True}]
SPECIAL = {"bos_token": "<|begin|>", "eos_token": "<|end|>"}
TEMPLATES = {
    "llama-3": """{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{%- if strftime_now is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- else %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\nToday: " + date_string + "\\n\\n" + system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "blocks-on-lines": """{% for message in messages %}
  {% if message.role == 'user' %}
    <user {{ loop.index0 }}/{{ loop.length }}{{ ' first' if loop.first }}>
  {{ message.content.strip() }}
  {% elif message.role == "assistant" -%}
    <assistant>{{ message.content.split('</think>')[-1].lstrip('\\n').upper() }}
  {%+ else %}
    <{{ message.role.title() }}> {{ message.content.rstrip() | length }}
  {% endif %}
{% endfor %}
{# a comment #}
{% if add_generation_prompt %}
<assistant>
{% endif %}
""",
    "alternation": """{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('Roles must alternate, found ' ~ message['role'] ~ ' at ' ~ loop.index0) }}{% endif %}\
{{ bos_token if loop.first else '' }}[{{ message['role'][0] }}] {{ message['content'] }}{{ eos_token }}{% endfor %}""",
    "namespace": """{%- set ns = namespace(seen=0, last='', tools=none) %}
{%- for message in messages[::-1] %}
    {%- if message.role == 'user' and ns.last == '' %}{% set ns.last = message.content %}{% endif %}
    {%- set ns.seen = ns.seen + 1 %}
    {%- if ns.seen >= 3 %}{% break %}{% endif %}
{%- endfor %}
{%- if tools is defined and tools is not none %}
{{ tools | tojson(indent=4) }}
{{ tools[0].function.parameters | tojson(sort_keys=True, separators=(',', ':')) }}
{{ tools[0] | tojson(ensure_ascii=True) }}
    {%- for key, value in tools[0].function.parameters.properties.items() %}{{ key }}:{{ value.get('type', '?') }};{% endfor %}
{%- endif %}
{%- macro turn(role, text='') %}<{{ role }}>{{ text }}</{{ role }}>{% endmacro %}
{{- ns.seen }} {{ ns.last | tojson }} {{ turn('x', text=ns.last.replace('\\n', ' ')) }} {{ true }} {{ none }} {{ enable_thinking is defined and enable_thinking is false }}
{%- if messages | selectattr('role', 'equalto', 'assistant') | list | length > 0 %} answered{% endif %}
{%- if tools is iterable and messages is iterable and messages is sequence and messages[0] is mapping %} tools{% endif %}
{%- if not (messages | map(attribute='role') | list)[0] in ['system', 'user'] %} odd{% endif %}
""",
    "parts-only": """{% for message in messages %}<{{ message.role }}>{% for part in message.content %}\
{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}</{{ message.role }}>{% endfor %}""",
}


def rendered(source, special, chats, tokenizer=None):
    cases = []
    for chat in chats:
        case = dict(chat)
        try:
            texts, _ = chat_template_utils.render_jinja_template(
                [chat["messages"]], tools=chat.get("tools"), chat_template=source,
                add_generation_prompt=chat["add_generation_prompt"], **{**special, **chat.get("extra", {})})
            case["text"] = texts[0]
            if tokenizer is not None:
                case["ids"] = tokenizer.encode(texts[0], add_special_tokens=False)
        except Exception as error:  # the template's own refusal, or Python's
            case["error"] = str(error)
        cases.append(case)
    return cases


def lines(items):
    """One line for each item, so that changes can be read."""
    return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in items) + "\n]"


def write(name, fields):
    body = ",\n".join(f"{json.dumps(key)}: {value}" for key, value in fields.items())
    (ROOT / "tests/golden/policy" / name).write_text("{" + body + "}\n")


def main():
    chat_template_utils.datetime = Fixed
    carried = pathlib.Path(trl.__file__).parent / "chat_templates"
    models, templates = [], []
    for pre, (folder, file) in MODELS.items():
        tokenizer = from_gguf(pre)
        special = tokenizer.special_tokens_map
        models.append({"folder": folder, "file": file, "special": special, "eos": tokenizer.eos_token_id,
                       "vocab_size": len(tokenizer), "cases": encoded(tokenizer.backend_tokenizer, TEXTS),
                       "chats": rendered(tokenizer.chat_template, special, CHATS, tokenizer)})
        templates.append((folder, tokenizer.chat_template, special, CHATS))
    for name, chats in {"qwen3": CHATS, "qwen3_training": CHATS, "qwen3_vl": CHATS + SEEING}.items():
        templates.append((name, (carried / f"{name}.jinja").read_text(), {}, chats))
    for name, source in TEMPLATES.items():
        templates.append((name, source, SPECIAL, SEEING if name == "parts-only" else CHATS))
    small = tiny()
    write("tokenizer.json", {
        "transformers": json.dumps(transformers.__version__),
        "models": lines(models),
        "tokens": json.dumps(small["tokens"], ensure_ascii=False),
        "merges": json.dumps(small["merges"], ensure_ascii=False),
        "json": json.dumps(small["json"], ensure_ascii=False),
        "families": lines(small["families"]),
    })
    cases = [{"name": name, "source": source, "special": special, "cases": rendered(source, special, chats)}
             for name, source, special, chats in templates]
    write("templates.json", {"date": json.dumps(Fixed.now().isoformat()), "templates": lines(cases)})


if __name__ == "__main__":
    main()
