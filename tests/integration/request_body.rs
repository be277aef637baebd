//! `POST /v1/transfers`: what is a body, and which bodies are one and the same.

use crate::{
    client::{key, transfer},
    look::aoi_and_ren,
};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");
const PATH: &str = "/v1/transfers";

/// What a row does to a good body: a member and its value; `None` takes it out.
type Edit<'a> = (&'a str, Option<Value>);

fn edited(body: &Value, edits: &[Edit<'_>]) -> Value {
    let mut body = body.clone();
    for (member, value) in edits {
        match value {
            Some(value) => body[*member] = value.clone(),
            None => drop(body.as_object_mut().unwrap().remove(*member)),
        }
    }
    body
}

#[tokio::test]
async fn every_member_is_checked_and_its_fault_pointed_at() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let (body, before) = (transfer(&aoi, &ren, 1_000), bank.snapshot().await);
    let long = |length| json!("振".repeat(length));
    let account_faults = vec![None, json!("").into(), json!("a b").into(), json!("a#b").into(), json!("a/b").into()];
    let account_faults =
        [account_faults, vec![Some(json!("a".repeat(65))), Some(json!(1)), Some(json!("口座"))]].concat();
    let amounts = [json!(0), json!(-1), json!(9_007_199_254_740_992_i64), json!(u64::MAX), json!(1.5), json!(1e2)];
    let amounts = amounts.into_iter().chain([json!("1000"), json!(true), json!([1]), json!({})]).map(Some);
    let currencies = ["", "jpy", "JP", "JPYY", "ZZZ", " JPY", "ＪＰＹ"].map(|code| Some(json!(code)));
    let texts = ["a\u{0}b", "a\nb", "a\u{7f}", "\u{85}a", "a\u{202E}b", "\u{202A}a", "\u{2066}a", "a\u{2069}"];
    let texts = || texts.into_iter().map(|text| Some(json!(text)));
    let names = [None, Some(json!("")), Some(json!(" \u{3000}")), Some(long(49)), Some(json!(7))];
    let rows: [(&str, Vec<Option<Value>>); 6] = [
        ("source_account_id", account_faults.clone()),
        ("destination_account_id", account_faults),
        ("amount_minor", amounts.chain([None, Some(Value::Null)]).collect()),
        ("currency", currencies.into_iter().chain([None, Some(json!(392)), Some(Value::Null)]).collect()),
        ("requester_name", names.into_iter().chain(texts()).collect()),
        ("memo", [long(141), json!(1), Value::Null, json!([])].map(Some).into_iter().chain(texts()).collect()),
    ];
    for (member, values) in rows {
        for value in values {
            let context = format!("{member} {value:?}");
            let refused = phone.request(&key("one"), &edited(&body, &[(member, value)])).await;
            refused.assert_problem(400, "TR003", &context);
            assert_eq!(refused.places(), [format!("/{member}")], "{context}");
            assert_eq!(refused.body["money_moved"], false, "{context}");
        }
    }
    bank.assert_unchanged(&before, "a refused body").await;
}

#[tokio::test]
async fn every_fault_of_a_body_is_answered_at_once() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let (body, before) = (transfer(&aoi, &ren, 1_000), bank.snapshot().await);
    let rows = [
        (
            json!({}),
            vec!["/source_account_id", "/destination_account_id", "/amount_minor", "/currency", "/requester_name"],
        ),
        (
            edited(&body, &[("amount_minor", Some(json!(0))), ("currency", None), ("memo", Some(json!(1)))]),
            vec!["/amount_minor", "/currency", "/memo"],
        ),
        (
            edited(&body, &[("note", Some(json!(1))), ("a/b~c", Some(json!(1))), ("", Some(json!(1)))]),
            vec!["/note", "/a~1b~0c", "/"],
        ),
        (
            edited(&body, &[("requester_name", Some(json!(""))), ("user", Some(json!("x")))]),
            vec!["/requester_name", "/user"],
        ),
        (edited(&body, &[("Amount_minor", Some(json!(1)))]), vec!["/Amount_minor"]),
    ];
    for (body, expected) in rows {
        let refused = phone.request(&key("one"), &body).await;
        refused.assert_problem(400, "TR003", &body.to_string());
        let (mut places, mut expected) = (refused.places(), expected);
        places.sort();
        expected.sort_unstable();
        assert_eq!(places, expected, "{body}");
    }
    bank.assert_unchanged(&before, "a refused body").await;
}

#[tokio::test]
async fn what_is_no_strict_json_object_is_refused() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let (good, before) = (transfer(&aoi, &ren, 1_000).to_string(), bank.snapshot().await);
    let with = |amount: &str| good.replace("1000", amount);
    let deep = |open: &str, close: &str| format!("{{\"memo\":{}{}}}", open.repeat(2_000), close.repeat(2_000));
    let rows: Vec<(Vec<u8>, &str)> = [
        (String::new(), ""),
        ("null".to_owned(), ""),
        ("[]".to_owned(), ""),
        ("\"{}\"".to_owned(), ""),
        ("{".to_owned(), ""),
        (format!("{good}x"), ""),
        (format!("{good}{good}"), ""),
        (format!("\u{FEFF}{good}"), ""),
        (good.replace('"', "'"), ""),
        (good.replacen('{', "{,", 1), ""),
        (format!("/**/{good}"), ""),
        (deep("[", "]"), ""),
        (deep("{\"a\":", "}"), ""),
        (with("01000"), ""),
        (with("+1000"), ""),
        (with("1000."), ""),
        (with("0x10"), ""),
        (with("NaN"), ""),
        (with("1e2"), "/amount_minor"),
        (with("1E+2"), "/amount_minor"),
        (with("1000.0"), "/amount_minor"),
        (with("-0"), "/amount_minor"),
        (with("-0.0"), "/amount_minor"),
        (with("9007199254740992"), "/amount_minor"),
        (with("18446744073709552616"), "/amount_minor"),
        (with(&"9".repeat(300)), "/amount_minor"),
        (good.replace("rent", r"\ud800"), ""),
        (good.replace("rent", r"\x41"), ""),
        (good.replace("rent", "a\nb"), ""),
        (good.replace("rent", r"\u0000"), "/memo"),
        (good.replace("rent", r"\u202e"), "/memo"),
        (good.replacen('{', "{\"memo\":\"rent\",", 1), "/memo"),
        (good.replacen('{', "{\"amount_minor\":1,", 1), "/amount_minor"),
        (good.replacen('{', r#"{"\u0061mount_minor":1,"#, 1), "/amount_minor"),
    ]
    .into_iter()
    .map(|(body, place)| (body.into_bytes(), place))
    .chain([(good.replace("rent", "??").into_bytes().iter().map(|b| if *b == b'?' { 0xFF } else { *b }).collect(), "")])
    .collect();
    for (body, place) in rows {
        let context = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        let refused = phone.send("POST", PATH, &[JSON, ("idempotency-key", &key("one"))], &body).await;
        refused.assert_problem(400, "TR003", &context);
        assert_eq!(refused.places(), [place], "{context}");
    }
    bank.assert_unchanged(&before, "a refused body").await;
}

#[tokio::test]
async fn a_body_that_is_too_large_or_of_another_type_is_refused() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let (good, before) = (transfer(&aoi, &ren, 1_000).to_string(), bank.snapshot().await);
    let padded = |length: usize| format!("{good}{}", " ".repeat(length - good.len()));
    let rows: &[(&[&str], String, u16, &str)] = &[
        (&["application/json"], padded(16 * 1024 + 1), 413, ""),
        (&["application/json"], padded(1024 * 1024), 413, ""),
        (&["text/plain"], padded(16 * 1024 + 1), 413, ""),
        (&[], good.clone(), 415, "Content-Type"),
        (&[""], good.clone(), 415, "Content-Type"),
        (&["text/json"], good.clone(), 415, "Content-Type"),
        (&["application/json; charset=shift_jis"], good.clone(), 415, "Content-Type"),
        (&["application/problem+json"], good.clone(), 415, "Content-Type"),
        (&["application/x-www-form-urlencoded"], good.clone(), 415, "Content-Type"),
        (&["application/json", "application/json"], good.clone(), 415, "Content-Type"),
        (&["application/json, text/plain"], good.clone(), 415, "Content-Type"),
    ];
    for (types, body, status, place) in rows {
        let key = key("one");
        let mut headers = vec![("idempotency-key", key.as_str())];
        headers.extend(types.iter().map(|name| ("content-type", *name)));
        let refused = phone.send("POST", PATH, &headers, body.as_bytes()).await;
        refused.assert_problem(*status, "TR003", &format!("{types:?}"));
        assert_eq!(refused.places(), [*place], "{types:?}");
    }
    bank.assert_unchanged(&before, "a refused body").await;
    for (name, types) in [("largest", "application/json"), ("utf-8", "Application/JSON;charset=UTF-8")] {
        let headers = [("content-type", types), ("idempotency-key", &key(name))];
        assert_eq!(phone.send("POST", PATH, &headers, padded(16 * 1024).as_bytes()).await.status, 201, "{name}");
    }
}

#[tokio::test]
async fn bodies_that_mean_the_same_are_the_same() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let mut body = transfer(&aoi, &ren, 1_000);
    body["requester_name"] = json!("ガラス");
    body["memo"] = json!("café");
    let admitted = phone.request(&key("one"), &body).await;
    assert_eq!((admitted.text("requester_name"), admitted.text("memo")), ("ガラス", "café"));
    let same = [
        ("requester_name", "カ\u{3099}ラス"),
        ("requester_name", "\u{3000} ガラス \u{3000}"),
        ("requester_name", "\u{a0}カ\u{3099}ラス"),
        ("memo", "cafe\u{301}"),
        ("memo", "\u{3000}café "),
    ];
    for (member, value) in same {
        let replayed = phone.request(&key("one"), &edited(&body, &[(member, Some(json!(value)))])).await;
        assert_eq!((replayed.status, &replayed.body), (200, &admitted.body), "{value:?}");
    }
    let escaped = body.to_string().replace("ガ", r"\u30ac").replace(',', " ,\n ");
    let replayed = phone.send("POST", PATH, &[JSON, ("idempotency-key", &key("one"))], escaped.as_bytes()).await;
    assert_eq!((replayed.status, replayed.body), (200, admitted.body));
    for (member, value) in [("requester_name", "ガ ラス"), ("requester_name", "ｶﾞﾗｽ"), ("memo", "cafe")] {
        let other = phone.request(&key("one"), &edited(&body, &[(member, Some(json!(value)))])).await;
        other.assert_problem(422, "TR009", value);
    }
    assert_eq!(bank.books().await.instructions.len(), 1);
}

#[tokio::test]
async fn a_memo_left_out_is_an_empty_one() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let body = transfer(&aoi, &ren, 1_000);
    let admitted = phone.request(&key("one"), &edited(&body, &[("memo", None)])).await;
    assert_eq!((admitted.status, admitted.text("memo")), (201, ""));
    for memo in ["", "  \u{3000}"] {
        let replayed = phone.request(&key("one"), &edited(&body, &[("memo", Some(json!(memo)))])).await;
        assert_eq!((replayed.status, &replayed.body), (200, &admitted.body), "{memo:?}");
    }
    assert_eq!(bank.books().await.instructions.len(), 1);
}

#[tokio::test]
async fn the_longest_texts_are_taken_whole() {
    let (_, aoi, ren, phone) = aoi_and_ren(70_000).await;
    // Lengths count scalar values after normalising: these are twice as many before.
    let (name, memo) = ("カ\u{3099}".repeat(48), "😀".repeat(140));
    let body =
        edited(&transfer(&aoi, &ren, 1_000), &[("requester_name", Some(json!(name))), ("memo", Some(json!(memo)))]);
    let admitted = phone.request(&key("one"), &body).await;
    assert_eq!(admitted.status, 201, "{}", admitted.body);
    assert_eq!((admitted.text("requester_name"), admitted.text("memo")), ("ガ".repeat(48).as_str(), memo.as_str()));
}

#[tokio::test]
async fn what_a_bad_body_says_of_its_key_is_looked_up() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let posted = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 1_000)).await;
    let unknown = phone.request(&key("one"), &json!({})).await;
    assert_eq!((unknown.text("result"), &unknown.body["money_moved"]), ("INSTRUCTION_ACKNOWLEDGED", &json!("unknown")));
    phone.confirm(&posted.id()).await;
    let refused = phone.request(&key("one"), &json!({})).await;
    refused.assert_problem(400, "TR003", "a bad body under a posted key");
    assert_eq!((refused.text("result"), &refused.body["money_moved"]), ("FINANCIAL_COMMITTED", &json!(true)));
}
