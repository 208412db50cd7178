use serde_json::{Value, json};

use super::server::{Answer, Server};
use super::*;

fn full() -> ChatRequest {
    let png = Image::new(vec![1, 2, 3], "image/png");
    let mut request = ChatRequest::new(
        "m",
        vec![Message::system("Be brief."), Message::user([Part::Image(png), Part::text("What is it?")])],
    );
    request.sampling =
        Sampling { temperature: 0.7, top_p: 0.9, max_tokens: 64, seed: Some(5), stop: vec!["\n".to_owned()] };
    request.structured = Some(json!({ "type": "object" }));
    request.extra.insert("top_k".to_owned(), json!(20));
    request.replica = 2;
    request
}

#[test]
fn the_body_is_what_servers_read() {
    let expected = json!({
        "model": "m",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": [
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AQID" } },
                { "type": "text", "text": "What is it?" },
            ] },
        ],
        "temperature": 0.7, "top_p": 0.9, "max_tokens": 64, "seed": 7, "stop": ["\n"],
        "response_format": {
            "type": "json_schema",
            "json_schema": { "name": "reply", "strict": true, "schema": { "type": "object" } },
        },
        "top_k": 20,
    });
    assert_eq!(full().body(StructuredStyle::ResponseFormat).unwrap(), expected);
    let vllm = full().body(StructuredStyle::StructuredOutputs).unwrap();
    assert_eq!(vllm["structured_outputs"], json!({ "json": { "type": "object" } }));
    assert_eq!(vllm.get("response_format"), None);
}

#[test]
fn extra_fields_override_and_null_leaves_out() {
    let mut request = ask("a");
    request.extra.insert("max_tokens".to_owned(), Value::Null);
    request.extra.insert("max_completion_tokens".to_owned(), json!(9));
    let body = request.body(StructuredStyle::ResponseFormat).unwrap();
    assert_eq!((body.get("max_tokens"), &body["max_completion_tokens"]), (None, &json!(9)));
}

/// Pins the scheme: ledgers that were recorded must stay readable.
#[test]
fn the_recorded_form_and_key_are_pinned() {
    let request = Request::Chat(full());
    let form = r#"{"kind":"chat","model":"m","revision":"","messages":[{"role":"system","parts":[{"text":"Be brief."}]},{"role":"user","parts":[{"image":{"blake3":"b177ec1bf26dfb3b7010d473e6d44713b29b765b99c6e60ecbfae742de496543","mime":"image/png"}},{"text":"What is it?"}]}],"sampling":{"temperature":0.7,"top_p":0.9,"max_tokens":64,"seed":5,"stop":["\n"]},"structured":{"type":"object"},"extra":{"top_k":20},"replica":2}"#;
    assert_eq!(serde_json::to_string(&request).unwrap(), form);
    assert_eq!(request.key().to_string(), PINNED_KEY);
    let read: Request = serde_json::from_str(form).unwrap();
    assert_eq!(read, request);
    assert_eq!(read.key(), request.key());
    // What was read back has no bytes to send.
    let Request::Chat(read) = read else { panic!("a conversation") };
    assert!(read.body(StructuredStyle::ResponseFormat).unwrap_err().contains("has no bytes"));
}

const PINNED_KEY: &str = "7797fe86bbac20e1d662d1b355d7b1bc785884cb99f7e47563c984777a7ccd79";

#[test]
fn every_part_of_a_request_is_in_its_key() {
    let changes: [fn(&mut ChatRequest); 15] = [
        |r| r.model.push('x'),
        |r| r.revision.push('x'),
        |r| r.messages[0].role = Role::User,
        |r| r.messages[0].parts.push(Part::text("")),
        |r| r.messages[1].parts.swap(0, 1),
        |r| r.messages[1].parts[0] = Part::Image(Image::new(vec![1, 2, 4], "image/png")),
        |r| r.messages[1].parts[0] = Part::Image(Image::new(vec![1, 2, 3], "image/jpeg")),
        |r| r.sampling.temperature = 0.8,
        |r| r.sampling.top_p = 1.0,
        |r| r.sampling.max_tokens = 65,
        |r| r.sampling.seed = None,
        |r| r.sampling.stop.clear(),
        |r| r.structured = None,
        |r| r.replica = 3,
        |r| drop(r.extra.insert("mm_processor_kwargs".to_owned(), json!({ "max_pixels": 1 }))),
    ];
    let key = |request: &ChatRequest| Request::Chat(request.clone()).key();
    let mut keys: Vec<Key> = changes
        .iter()
        .map(|change| {
            let mut request = full();
            change(&mut request);
            key(&request)
        })
        .collect();
    keys.push(key(&full()));
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), changes.len() + 1);
}

#[test]
fn the_order_of_fields_counts_in_schemas_alone() {
    let key = |extra: &str, schema: &str| {
        let mut request = ask("a");
        request.extra.insert("o".to_owned(), serde_json::from_str(extra).unwrap());
        request.structured = Some(serde_json::from_str(schema).unwrap());
        Request::Chat(request).key()
    };
    let (ab, ba) = (r#"{"a":{"x":1,"y":2},"b":2}"#, r#"{"b":2,"a":{"y":2,"x":1}}"#);
    assert_eq!(key(ab, ab), key(ba, ab));
    assert_ne!(key(ab, ab), key(ab, ba));
}

#[test]
fn the_limit_on_pixels_is_sent_with_images_and_part_of_the_key() {
    let server = Server::start(|call| Answer::Text(call.body["mm_processor_kwargs"].to_string()));
    let ledger = tempfile::tempdir().unwrap();
    let plain = settings(&[&server], ledger.path());
    let limited = ChatSettings { image_max_pixels: Some(1_003_520), ..plain.clone() };
    let (plain, limited) = (BlockingClient::open(&plain).unwrap(), BlockingClient::open(&limited).unwrap());
    let text = |client: &BlockingClient, request: &ChatRequest| {
        client.call(request).unwrap().into_result().unwrap().text
    };
    let mut stated = full();
    stated.extra.insert("mm_processor_kwargs".to_owned(), json!({ "max_pixels": 9, "fps": 1 }));
    assert_eq!(text(&plain, &full()), "null");
    assert_eq!(text(&limited, &full()), r#"{"max_pixels":1003520}"#);
    assert_eq!(text(&limited, &stated), r#"{"max_pixels":9,"fps":1}"#);
    assert_eq!(text(&limited, &ask("no image")), "null");
    assert_ne!(plain.client().key(&full()), limited.client().key(&full()));
    assert_eq!(plain.client().key(&ask("a")), limited.client().key(&ask("a")));
}
