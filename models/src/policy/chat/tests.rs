use candle_core::quantized::gguf_file::Content as Gguf;
use serde_json::json;

use super::super::tokenizer::tests::fetched;
use super::*;

#[derive(Deserialize)]
struct Golden {
    date: String,
    templates: Vec<Template>,
}

#[derive(Deserialize)]
struct Template {
    name: String,
    source: String,
    special: SpecialTokens,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    messages: Vec<Message>,
    add_generation_prompt: bool,
    tools: Option<Vec<Json>>,
    #[serde(default)]
    extra: Map<String, Json>,
    text: Option<String>,
    ids: Option<Vec<u32>>,
    error: Option<String>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../../tests/golden/policy/templates.json")).unwrap()
}

fn template(name: &str) -> ChatTemplate {
    let all = golden().templates;
    let found = all.into_iter().find(|template| template.name == name).unwrap();
    ChatTemplate::new(&found.source, found.special).unwrap()
}

/// A tokenizer whose tokens are bytes and the special tokens of `ChatML`.
fn bytes() -> TextTokenizer {
    let mut symbols: Vec<char> = (33u8..=126).chain(161..=172).chain(174..=255).map(char::from).collect();
    symbols.extend((0u32..68).filter_map(|i| char::from_u32(256 + i)));
    let mut vocab: Map<String, Json> =
        symbols.iter().zip(0..).map(|(c, id)| (c.to_string(), json!(id))).collect();
    let special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"];
    special.iter().zip(256..).for_each(|(token, id)| drop(vocab.insert((*token).to_owned(), json!(id))));
    let added: Vec<Json> = special
        .iter()
        .zip(256..)
        .map(|(token, id)| {
            json!({"id": id, "content": token, "special": true, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false})
        })
        .collect();
    let level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let file = json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": level, "post_processor": null, "decoder": level,
        "model": {"type": "BPE", "vocab": vocab, "merges": []}});
    let tokenizer = TextTokenizer::from_json(file.to_string().as_bytes()).unwrap();
    tokenizer.with_tokenizer_config(br#"{"eos_token": "<|endoftext|>"}"#).unwrap()
}

fn user(text: &str) -> Message {
    Message::new("user", text)
}

fn assistant(text: &str) -> Message {
    Message::new("assistant", text)
}

/// Against `scripts/reference/tokenizer_golden.py`.
#[test]
fn templates_render_as_in_transformers() {
    let Golden { date, templates } = golden();
    for Template { name, source, special, cases } in templates {
        let template = ChatTemplate::new(&source, special).unwrap();
        for (i, case) in cases.into_iter().enumerate() {
            let options =
                TemplateOptions { tools: case.tools, date: Some(date.parse().unwrap()), extra: case.extra };
            let found = template.render(&case.messages, case.add_generation_prompt, &options);
            match (case.text, case.error) {
                (Some(text), _) => assert_eq!(found.unwrap(), text, "{name}, case {i}"),
                (None, error) => {
                    let message = found.unwrap_err().to_string();
                    assert!(message.contains(&error.unwrap()), "{name}, case {i}: {message}");
                }
            }
        }
    }
}

/// Against `scripts/reference/tokenizer_golden.py`.
#[test]
fn ids_of_chats_equal_the_reference() {
    #[derive(Deserialize)]
    struct Ids {
        models: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        folder: String,
        file: String,
        chats: Vec<Case>,
    }
    let golden: Ids =
        serde_json::from_str(include_str!("../../../../tests/golden/policy/tokenizer.json")).unwrap();
    for Model { folder, file, chats } in golden.models {
        let Some(content) = fetched(&folder, &file) else { continue };
        let tokenizer = TextTokenizer::from_gguf(&content).unwrap();
        let template = ChatTemplate::from_gguf(&content, &tokenizer).unwrap();
        let end = tokenizer.id_of("<|im_end|>").unwrap();
        for case in chats {
            let options = TemplateOptions { tools: case.tools, date: None, extra: case.extra };
            if case.add_generation_prompt {
                let prompt = encode_chat(&tokenizer, &template, &case.messages, &options).unwrap();
                assert_eq!(Some(prompt.ids), case.ids, "{folder}");
            } else {
                // No merge spans the border here: the example is what transformers gives for the whole conversation,
                // less the newline that nobody samples.
                let example = encode_example(&tokenizer, &template, &case.messages, &options).unwrap();
                let ids = case.ids.unwrap();
                assert_eq!(example.ids, ids[..ids.len() - 1], "{folder}");
                assert_eq!(example.ids.last(), Some(&end));
            }
        }
        assert_eq!(stop_ids(&tokenizer, &template, &TemplateOptions::default()).unwrap(), [end]);
    }
}

#[test]
fn an_example_begins_with_the_prompt_that_is_sampled_from() {
    let tokenizer = bytes();
    let end = tokenizer.id_of("<|im_end|>").unwrap();
    let nothing = Map::new();
    let quiet = Map::from_iter([("enable_thinking".to_owned(), json!(false))]);
    for name in
        ["SmolLM2-135M-Instruct", "Qwen2.5-Coder-0.5B-Instruct", "qwen3", "qwen3_training", "qwen3_vl"]
    {
        let template = template(name);
        for extra in [&nothing, &quiet] {
            let options = TemplateOptions { extra: extra.clone(), ..TemplateOptions::default() };
            for answer in ["CLICK(3, 4)", "\n\n lead and trail \n", "<think>\nhm\n</think>\n\nDONE", ""] {
                let mut messages = vec![user("Open the settings"), assistant("TAP"), user("More")];
                let prompt = encode_chat(&tokenizer, &template, &messages, &options).unwrap();
                messages.push(assistant(answer));
                let example = encode_example(&tokenizer, &template, &messages, &options).unwrap();
                let (before, after) = example.ids.split_at(example.completion_start);
                assert_eq!(before, prompt.ids, "{name}");
                assert_eq!(after.last(), Some(&end), "{name}");
                assert_eq!(tokenizer.decode(after, true).unwrap(), answer, "{name}");
            }
        }
    }
    let options = TemplateOptions { extra: quiet, ..TemplateOptions::default() };
    let prompt = encode_chat(&tokenizer, &template("qwen3"), &[user("?")], &options).unwrap();
    assert!(prompt.text.ends_with("<|im_start|>assistant\n<think>\n\n</think>\n\n"));
}

#[test]
fn the_end_of_a_turn_is_what_the_template_writes() {
    let (tokenizer, options) = (bytes(), TemplateOptions::default());
    let id = |token: &str| tokenizer.id_of(token).unwrap();
    let ends = |source: &str| {
        let template = ChatTemplate::new(source, tokenizer.special_tokens().clone()).unwrap();
        stop_ids(&tokenizer, &template, &options)
    };
    let each = |after: &str| format!("{{% for m in messages %}}{{{{ m.content }}}}{after}{{% endfor %}}");
    assert_eq!(ends(&each("<|im_end|>\n")).unwrap(), [id("<|im_end|>"), id("<|endoftext|>")]);
    assert_eq!(ends(&each(" {{ eos_token }}")).unwrap(), [id("<|endoftext|>")]);
    assert_eq!(ends(&each("\n")).unwrap(), [id("<|endoftext|>")]);
    assert!(ends("{{ messages[0].role }}").unwrap_err().to_string().contains("answer"));
}

#[test]
fn examples_that_cannot_be_learnt_are_refused() {
    let (tokenizer, template) = (bytes(), template("qwen3"));
    let fails = |messages: &[Message]| {
        let result = encode_example(&tokenizer, &template, messages, &TemplateOptions::default());
        result.unwrap_err().to_string()
    };
    assert!(fails(&[]).contains("absent"));
    assert!(fails(&[user("?")]).contains("user"));
    assert!(fails(&[assistant("no question")]).contains("none"));
    assert!(fails(&[user("?"), assistant("a<|im_end|>b")]).contains("<|im_end|>"));
    let seen =
        Message { role: "assistant".to_owned(), content: Content::Parts(vec![Part::Image { image: None }]) };
    assert!(fails(&[user("?"), seen]).contains("image"));
}

#[test]
fn content_takes_the_form_that_the_template_takes() {
    let parts: Message = serde_json::from_value(
        json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
    )
    .unwrap();
    let image: Message =
        serde_json::from_value(json!({"role": "user", "content": [{"type": "image", "image": "1.png"}]}))
            .unwrap();
    let render = |name: &str, message: &Message| {
        template(name).render(std::slice::from_ref(message), false, &TemplateOptions::default())
    };
    assert!(render("qwen3", &parts).unwrap().contains("user\na\nb<|im_end|>"));
    assert!(render("llama-3", &parts).unwrap().contains("a\nb<|eot_id|>"));
    assert!(render("qwen3_vl", &parts).unwrap().contains("user\nab<|im_end|>"));
    assert_eq!(render("parts-only", &user("a")).unwrap(), "<user>a</user>");
    assert_eq!(render("parts-only", &image).unwrap(), "<user><image></user>");
    assert!(render("qwen3", &image).unwrap_err().to_string().contains("image"));
    assert_eq!(serde_json::to_value(&image).unwrap()["content"][0]["image"], "1.png");
}

#[test]
fn without_a_date_a_template_takes_its_own() {
    let text = template("llama-3").render(&[user("?")], true, &TemplateOptions::default()).unwrap();
    assert!(text.contains("Today: 26 Jul 2024"), "{text}");
    let asks = ChatTemplate::new("{{ strftime_now('%Y') }}", SpecialTokens::new()).unwrap();
    assert!(asks.render(&[user("?")], true, &TemplateOptions::default()).is_err());
}

#[test]
fn templates_are_found_where_the_libraries_put_them() {
    let of = |config: Json| ChatTemplate::from_tokenizer_config(config.to_string().as_bytes());
    let chat = "{{ bos_token }}{{ messages[0].content }}";
    let one = of(json!({"chat_template": chat, "bos_token": {"content": "<s>"}})).unwrap().unwrap();
    assert_eq!(one.render(&[user("a")], true, &TemplateOptions::default()).unwrap(), "<s>a");
    assert_eq!(one.source(), chat);
    let named = json!([{"name": "tool_use", "template": "t"}, {"name": "default", "template": chat}]);
    assert_eq!(of(json!({"chat_template": named})).unwrap().unwrap().source(), chat);
    assert!(of(json!({})).unwrap().is_none());
    let only = of(json!({"chat_template": [{"name": "rag", "template": chat}]})).err().unwrap().to_string();
    assert!(only.contains("rag") && only.contains("chat_template.jinja"), "{only}");

    let folder = tempfile::tempdir().unwrap();
    let absent = ChatTemplate::from_folder(folder.path()).err().unwrap().to_string();
    assert!(absent.contains("chat_template.jinja"), "{absent}");
    let config = json!({"chat_template": "old", "bos_token": "<s>"}).to_string();
    std::fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
    assert_eq!(ChatTemplate::from_folder(folder.path()).unwrap().source(), "old");
    std::fs::write(folder.path().join("chat_template.jinja"), chat).unwrap();
    let template = ChatTemplate::from_folder(folder.path()).unwrap();
    assert_eq!(template.render(&[user("a")], true, &TemplateOptions::default()).unwrap(), "<s>a");

    let bare = Gguf {
        magic: gguf_file::VersionedMagic::GgufV3,
        metadata: std::collections::HashMap::new(),
        tensor_infos: std::collections::HashMap::new(),
        tensor_data_offset: 0,
    };
    let message = ChatTemplate::from_gguf(&bare, &bytes()).err().unwrap().to_string();
    assert!(message.contains("tokenizer.chat_template"), "{message}");
}

#[test]
fn unfit_templates_are_named_with_the_remedy() {
    let broken = ChatTemplate::new("a\n{% for %}", SpecialTokens::new()).err().unwrap().to_string();
    assert!(broken.contains('2') && broken.contains("chat_template.jinja"), "{broken}");
    let refused = ChatTemplate::new("{{ raise_exception('No system role') }}", SpecialTokens::new()).unwrap();
    let message = refused.render(&[user("a")], true, &TemplateOptions::default()).unwrap_err().to_string();
    assert!(message.contains("No system role"), "{message}");
    assert!(refused.render(&[], true, &TemplateOptions::default()).is_err());
}
