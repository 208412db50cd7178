use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use candle_core::quantized::gguf_file::{Content, Value, VersionedMagic};
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Golden {
    models: Vec<Model>,
    tokens: Vec<String>,
    merges: Vec<String>,
    json: serde_json::Value,
    families: Vec<Family>,
}

#[derive(Deserialize)]
struct Model {
    folder: String,
    file: String,
    special: SpecialTokens,
    eos: u32,
    vocab_size: usize,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Family {
    pre: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    /// Where it differs from `ids`.
    plain: Option<Vec<u32>>,
    decoded: String,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../../tests/golden/policy/tokenizer.json")).unwrap()
}

/// The metadata of a GGUF file with the golden file's small vocabulary.
fn small(pre: &str) -> Content {
    let golden = golden();
    let texts = |all: &[String]| Value::Array(all.iter().cloned().map(Value::String).collect());
    let kind = |token: &String| match token.as_str() {
        "<think>" => 4,
        token if token.starts_with("<|") && token.len() > 2 => 3,
        _ => 1,
    };
    let types = golden.tokens.iter().map(|token| Value::I32(kind(token))).collect();
    let id = |token: &str| Value::U32(golden.tokens.iter().position(|t| t == token).unwrap() as u32);
    let entries = [
        (gguf::MODEL, Value::String("gpt2".to_owned())),
        (gguf::PRE, Value::String(pre.to_owned())),
        (gguf::TOKENS, texts(&golden.tokens)),
        (gguf::TYPES, Value::Array(types)),
        (gguf::MERGES, texts(&golden.merges)),
        ("tokenizer.ggml.bos_token_id", id("<|im_start|>")),
        ("tokenizer.ggml.eos_token_id", id("<|endoftext|>")),
        ("tokenizer.ggml.eot_token_id", id("<|im_end|>")),
    ];
    let metadata: HashMap<_, _> = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Content { magic: VersionedMagic::GgufV3, metadata, tensor_infos: HashMap::new(), tensor_data_offset: 0 }
}

fn check(tokenizer: &TextTokenizer, cases: &[Case], name: &str) {
    for Case { text, ids, plain, decoded } in cases {
        assert_eq!(&tokenizer.encode(text, false).unwrap(), ids, "{name}: {text:?}");
        let spelt = tokenizer.encode_plain(text).unwrap();
        assert_eq!(&spelt, plain.as_ref().unwrap_or(ids), "{name}, plain: {text:?}");
        assert_eq!(&tokenizer.decode(ids, true).unwrap(), decoded, "{name}: {text:?}");
        let bytes: Vec<u8> = ids.iter().flat_map(|id| tokenizer.bytes_of(*id)).collect();
        assert_eq!(
            String::from_utf8_lossy(&bytes),
            tokenizer.decode(ids, false).unwrap(),
            "{name}: {text:?}"
        );
        let mut stream = tokenizer.stream(true);
        let mut streamed: String = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
        streamed += &stream.finish().unwrap();
        assert_eq!(&streamed, decoded, "{name}, streamed: {text:?}");
    }
}

/// Where `scripts/fetch-models.sh` puts weights.
fn cache() -> Option<PathBuf> {
    let of = |key: &str| std::env::var_os(key).map(PathBuf::from);
    of("TRACEMILL_CACHE")
        .or_else(|| of("XDG_CACHE_HOME").map(|p| p.join("tracemill")))
        .or_else(|| of("HOME").map(|p| p.join(".cache/tracemill")))
}

/// The file of a model that is in the cache.
pub(in crate::policy) fn fetched_file(folder: &str, file: &str) -> Option<PathBuf> {
    let path = cache()?.join("models").join(folder).join(file);
    if !path.exists() {
        eprintln!("skipped: no {}; run scripts/fetch-models.sh smollm2 qwen2.5-coder-0.5b", path.display());
        return None;
    }
    Some(path)
}

/// Its metadata.
pub(in crate::policy) fn fetched(folder: &str, file: &str) -> Option<Content> {
    Some(Content::read(&mut File::open(fetched_file(folder, file)?).unwrap()).unwrap())
}

/// Against `scripts/reference/tokenizer_golden.py`.
#[test]
fn ids_of_gguf_models_equal_the_reference() {
    for Model { folder, file, special, eos, vocab_size, cases } in golden().models {
        let Some(content) = fetched(&folder, &file) else { continue };
        let tokenizer = TextTokenizer::from_gguf(&content).unwrap();
        check(&tokenizer, &cases, &folder);
        assert_eq!(tokenizer.special_tokens(), &special);
        assert_eq!((tokenizer.eos(), tokenizer.vocab_size()), ([eos].as_slice(), vocab_size));
        assert_eq!(tokenizer.bos(), tokenizer.id_of(&special["bos_token"]));
        // What the metadata say here: nothing is put around a text.
        assert_eq!(tokenizer.encode("hello", true).unwrap(), tokenizer.encode("hello", false).unwrap());
    }
}

/// Against `scripts/reference/tokenizer_golden.py`: the merges reach over every border of a pre-tokenizer.
#[test]
fn every_family_cuts_as_the_reference_does() {
    for Family { pre, cases } in golden().families {
        check(&TextTokenizer::from_gguf(&small(&pre)).unwrap(), &cases, &pre);
    }
}

#[test]
fn a_tokenizer_json_is_read_without_padding_and_truncation() {
    let golden = golden();
    let mut json = golden.json;
    json["truncation"] =
        serde_json::json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = serde_json::json!({"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "!"});
    let tokenizer = TextTokenizer::from_json(json.to_string().as_bytes()).unwrap();
    let qwen2 = golden.families.into_iter().find(|family| family.pre == "qwen2").unwrap();
    check(&tokenizer, &qwen2.cases, "tokenizer.json");
    assert!(tokenizer.eos().is_empty());
    assert_eq!(tokenizer.bos(), None);
    assert_eq!(tokenizer.vocab_size(), golden.tokens.len());
}

#[test]
fn llama_3_begins_with_its_bos_token_once() {
    let tokenizer = TextTokenizer::from_gguf(&small("llama-bpe")).unwrap();
    let bos = tokenizer.bos().unwrap();
    let with = tokenizer.encode("the man", true).unwrap();
    assert_eq!(with[0], bos);
    assert_eq!(with[1..], tokenizer.encode("the man", false).unwrap());
    let mut content = small("llama-bpe");
    content.metadata.insert("tokenizer.ggml.add_bos_token".to_owned(), Value::Bool(false));
    content.metadata.insert("tokenizer.ggml.add_eos_token".to_owned(), Value::Bool(true));
    let tokenizer = TextTokenizer::from_gguf(&content).unwrap();
    let ids = tokenizer.encode("the man", true).unwrap();
    assert_ne!(ids[0], bos);
    assert_eq!(ids.last(), tokenizer.eos().first());
}

#[test]
fn roles_and_ends_come_from_the_configurations() {
    let json = golden().json.to_string();
    let read = || TextTokenizer::from_json(json.as_bytes()).unwrap();
    let config = r#"{"bos_token": null, "eos_token": {"content": "<|im_end|>", "lstrip": false}, "pad_token": "<|endoftext|>", "add_bos_token": false}"#;
    let tokenizer = read().with_tokenizer_config(config.as_bytes()).unwrap();
    let (end, text) = (tokenizer.id_of("<|im_end|>").unwrap(), tokenizer.id_of("<|endoftext|>").unwrap());
    assert_eq!(tokenizer.eos(), [end]);
    assert_eq!(tokenizer.special_tokens().keys().collect::<Vec<_>>(), ["eos_token", "pad_token"]);
    let generation = format!(r#"{{"eos_token_id": [{end}, {text}], "temperature": 0.7}}"#);
    assert_eq!(tokenizer.with_generation_config(generation.as_bytes()).unwrap().eos(), [end, text]);
    let one = format!(r#"{{"eos_token_id": {text}}}"#);
    assert_eq!(read().with_generation_config(one.as_bytes()).unwrap().eos(), [text]);

    let folder = tempfile::tempdir().unwrap();
    let absent = TextTokenizer::from_folder(folder.path()).err().unwrap().to_string();
    assert!(absent.contains(&folder.path().join("tokenizer.json").display().to_string()), "{absent}");
    fs::write(folder.path().join("tokenizer.json"), &json).unwrap();
    fs::write(folder.path().join("tokenizer_config.json"), config).unwrap();
    fs::write(folder.path().join("generation_config.json"), &generation).unwrap();
    assert_eq!(TextTokenizer::from_folder(folder.path()).unwrap().eos(), [end, text]);
    fs::write(folder.path().join("tokenizer_config.json"), r#"{"eos_token": "</s>"}"#).unwrap();
    let message = TextTokenizer::from_folder(folder.path()).err().unwrap().to_string();
    assert!(message.contains("</s>") && message.contains("tokenizer_config.json"), "{message}");
}

#[test]
fn unfit_metadata_are_named_with_the_remedy() {
    let fails = |key: &str, value: Option<Value>| {
        let mut content = small("smollm");
        match value {
            Some(value) => content.metadata.insert(key.to_owned(), value),
            None => content.metadata.remove(key),
        };
        let message = TextTokenizer::from_gguf(&content).err().expect(key).to_string();
        assert!(message.contains(key) && message.contains("tokenizer.json"), "{message}");
        message
    };
    for key in [gguf::MODEL, gguf::PRE, gguf::TOKENS, gguf::TYPES, gguf::MERGES] {
        assert!(fails(key, None).contains("absent"));
        fails(key, Some(Value::U32(1)));
        fails(key, Some(Value::Array(vec![Value::Bool(true)])));
    }
    let text = |text: &str| Some(Value::String(text.to_owned()));
    assert!(fails(gguf::PRE, text("tekken")).contains("`tekken`"));
    assert!(fails(gguf::MODEL, text("llama")).contains("`llama`"));
    fails("tokenizer.ggml.eos_token_id", Some(Value::U32(1 << 20)));
    fails("tokenizer.ggml.add_bos_token", text("yes"));
    fails(gguf::MERGES, Some(Value::Array(vec![Value::String("nothing".to_owned())])));
    assert!(TextTokenizer::from_json(b"{").is_err());
}

#[test]
fn a_stream_holds_back_unfinished_characters() {
    let tokenizer = TextTokenizer::from_gguf(&small("smollm")).unwrap();
    // Four bytes, one token each: none was merged in the small vocabulary.
    let ids = tokenizer.encode("𐍈", false).unwrap();
    assert_eq!(ids.len(), 4);
    let mut stream = tokenizer.stream(true);
    let pieces: Vec<String> = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
    assert_eq!(pieces, ["", "", "", "𐍈"]);
    assert_eq!(stream.push(ids[0]).unwrap(), "");
    assert_eq!(stream.finish().unwrap(), "\u{fffd}");
}
