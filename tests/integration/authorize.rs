//! `POST /v1/transfers/{request_id}/authorization`.

use crate::{
    bank::{Bank, Person},
    client::{Client, key, transfer},
    look::{aoi_and_ren, number, requested},
};
use futures_util::future::join_all;
use serde_json::{Value, json};

#[tokio::test]
async fn a_code_authorizes_this_instruction_for_a_minute() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;

    let code = bank.code(&aoi.user, 0);
    let authorized = phone.authorize(&instruction.id(), &code, instruction.text("content_hash")).await;

    assert_eq!((authorized.status, authorized.is_replayed()), (200, false));
    assert_eq!(authorized.header("cache-control"), "no-store");
    assert_eq!(authorized.header("location"), format!("/v1/transfers/{}", instruction.id()));
    let mut expected = instruction.body.clone();
    let session = expected["history"][0]["session"].clone();
    expected["state"] = json!("AUTHORIZED");
    expected["authorized_until"] = json!("2026-12-01T03:01:00.000Z");
    let step = json!({ "at": "2026-12-01T03:00:00.000Z", "step": "AUTHORIZED", "session": session, "code": null });
    expected["history"].as_array_mut().unwrap().push(step);
    assert_eq!(authorized.body, expected);
    assert_eq!(phone.status(&instruction.id()).await.body, expected);
    bank.assert_transfers(0).await;
    assert_eq!(bank.balance(&aoi).await, 70_000);
}

/// Breaks one of the things that authorizing asks of the clock and the TOTP record.
async fn break_rule(code: &str, bank: &Bank, aoi: &Person) {
    let user = format!("USER#{}", aoi.user);
    match code {
        "TR010" => bank.advance_s(600),
        "AU004" => {
            bank.remove_attribute("core", &user, "TOTP", "secret_sealed").await;
            bank.remove_attribute("core", &user, "TOTP", "secret_version").await;
        }
        "AU003" => {
            let until = number(bank.now().as_millisecond() + 900_000);
            bank.set_attribute("core", &user, "TOTP", "locked_until", until).await;
        }
        _ => {}
    }
}

#[tokio::test]
async fn authorizing_refuses_in_its_documented_order() {
    const ORDER: [(&str, u16); 6] =
        [("TR004", 404), ("TR010", 409), ("AU006", 422), ("AU004", 409), ("AU003", 429), ("AU002", 403)];
    for (first, (code, status)) in ORDER.into_iter().enumerate() {
        let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
        let instruction = requested(&phone, &aoi, &ren, 40_000).await;
        // Each row breaks its own rule and every later one, so the order shows.
        for (later, _) in &ORDER[first..] {
            break_rule(later, &bank, &aoi).await;
        }
        let breaks = |code: &str| ORDER[first..].iter().any(|(later, _)| *later == code);
        let id = if breaks("TR004") { format!("ti_{}", "a".repeat(32)) } else { instruction.id() };
        let hash = if breaks("AU006") { "v1:other" } else { instruction.text("content_hash") };
        let before = bank.snapshot().await;

        let refused = phone.authorize(&id, &bank.wrong_code(&aoi.user), hash).await;

        refused.assert_problem(status, code, code);
        let said = (refused.text("result"), &refused.body["money_moved"]);
        match code {
            "TR004" => assert_eq!(said, ("", &json!(false))),
            "TR010" => assert_eq!(said, ("RESULT_UNKNOWN", &json!(false))),
            _ => assert_eq!(said, ("INSTRUCTION_ACKNOWLEDGED", &json!(false)), "{code}"),
        }
        if code != "AU002" {
            bank.assert_unchanged(&before, code).await;
        }
    }
}

#[tokio::test]
async fn a_closed_instruction_cannot_be_authorized() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let cancelled = requested(&phone, &aoi, &ren, 1).await;
    phone.cancel(&cancelled.id()).await;
    let late = requested(&phone, &aoi, &ren, 2).await;
    let posted = phone.authorized(&bank, &key("posted"), &transfer(&aoi, &ren, 3)).await;
    phone.confirm(&posted.id()).await;
    bank.advance_ms(599_999);
    let hash = late.text("content_hash");
    assert_eq!(phone.authorize(&late.id(), &bank.wrong_code(&aoi.user), hash).await.code(), "AU002");
    bank.advance_ms(1);
    let before = bank.snapshot().await;
    for (answer, result, money_moved) in [
        (&cancelled, "NO_POSTING_CONFIRMED", json!(false)),
        (&late, "RESULT_UNKNOWN", json!(false)),
        (&posted, "FINANCIAL_COMMITTED", json!(true)),
    ] {
        let code = bank.code(&aoi.user, 0);
        let refused = phone.authorize(&answer.id(), &code, answer.text("content_hash")).await;
        refused.assert_problem(409, "TR010", result);
        assert_eq!((refused.text("result"), &refused.body["money_moved"]), (result, &money_moved));
    }
    bank.assert_unchanged(&before, "a closed instruction").await;
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn a_malformed_approval_is_refused_and_not_counted() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    let (path, hash) = (format!("/v1/transfers/{}/authorization", instruction.id()), instruction.text("content_hash"));
    let before = bank.snapshot().await;
    let rows = [
        (json!({}), vec!["/totp_code", "/content_hash"]),
        (json!({ "totp_code": "123456" }), vec!["/content_hash"]),
        (json!({ "totp_code": "123456", "content_hash": null }), vec!["/content_hash"]),
        (json!({ "content_hash": hash }), vec!["/totp_code"]),
        (json!({ "totp_code": 123_456, "content_hash": hash }), vec!["/totp_code"]),
        (json!({ "totp_code": "123456", "content_hash": hash, "kind": "transfer" }), vec!["/kind"]),
        (json!([]), vec![""]),
    ];
    let codes = ["", "12345", "1234567", "12345a", "１２３４５６", " 12345", "-12345", "+12345", "123 456"];
    let of_codes = codes.map(|code| (json!({ "totp_code": code, "content_hash": hash }), vec!["/totp_code"]));
    for (body, places) in rows.into_iter().chain(of_codes) {
        let refused = phone.post(&path, &[], &body).await;
        refused.assert_problem(400, "TR003", &body.to_string());
        assert_eq!(refused.places(), places, "{body}");
        assert_eq!(refused.text("result"), "INSTRUCTION_ACKNOWLEDGED", "{body}");
    }
    let empty = phone.send("POST", &path, &[("content-type", "application/json")], b"").await;
    empty.assert_problem(400, "TR003", "an empty body");
    let doubled = format!(r#"{{"totp_code":"123456","totp_code":"123456","content_hash":"{hash}"}}"#);
    let doubled = phone.send("POST", &path, &[("content-type", "application/json")], doubled.as_bytes()).await;
    assert_eq!((doubled.problem(), doubled.places()), ((400, "TR003"), vec!["/totp_code".to_owned()]));
    bank.assert_unchanged(&before, "a malformed code").await;
    assert_eq!(bank.totp_number(&aoi, "failure_count").await, 0);
}

#[tokio::test]
async fn an_instruction_that_is_not_yours_is_not_there() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    let (hash, code) = (instruction.text("content_hash"), bank.code(&ren.user, 0));
    let other = bank.client(&ren, "s1");
    let before = bank.snapshot().await;
    let foreign = other.authorize(&instruction.id(), &code, hash).await;
    foreign.assert_problem(404, "TR004", "a foreign id");
    for id in [format!("ti_{}", "a".repeat(32)), "ti_x".to_owned(), "x".to_owned(), "%2F..".to_owned()] {
        let unknown = other.authorize(&id, &code, hash).await;
        assert_eq!((unknown.status, unknown.untraced()), (404, foreign.untraced()), "{id}");
    }
    bank.assert_unchanged(&before, "an unknown id").await;
}

#[tokio::test]
async fn a_wrong_and_a_reused_code_are_answered_alike() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let used = bank.code(&aoi.user, 0);
    phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 1)).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    let hash = instruction.text("content_hash");
    let mut answers = Vec::new();
    for code in [used, bank.wrong_code(&aoi.user), bank.code(&aoi.user, -1), bank.code(&aoi.user, 2)] {
        let refused = phone.authorize(&instruction.id(), &code, hash).await;
        refused.assert_problem(403, "AU002", &code);
        answers.push((refused.headers.clone(), refused.untraced()));
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
    assert_eq!(bank.totp_number(&aoi, "failure_count").await, 4);
    assert_eq!(phone.status(&instruction.id()).await.text("state"), "AWAITING_AUTHORIZATION");
}

#[tokio::test]
async fn a_code_is_accepted_one_step_around_now_and_no_further() {
    for (offset, status) in [(-2, 403), (-1, 200), (0, 200), (1, 200), (2, 403)] {
        // At both ends of the present step.
        for advance_ms in [0, 29_999] {
            let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
            bank.advance_ms(advance_ms);
            let instruction = requested(&phone, &aoi, &ren, 40_000).await;
            let code = bank.code(&aoi.user, offset);
            let answer = phone.authorize(&instruction.id(), &code, instruction.text("content_hash")).await;
            assert_eq!(answer.status, status, "step {offset} at {advance_ms} ms: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn a_step_is_accepted_once_whatever_it_authorizes() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let (one, two) = (requested(&phone, &aoi, &ren, 1).await, requested(&phone, &aoi, &ren, 2).await);
    let code = bank.code(&aoi.user, 0);
    assert_eq!(phone.authorize(&one.id(), &code, one.text("content_hash")).await.status, 200);
    phone.authorize(&two.id(), &code, two.text("content_hash")).await.assert_problem(403, "AU002", "used before");
    // Nor does an earlier step count after a later one.
    let earlier = bank.code(&aoi.user, -1);
    assert_eq!(phone.authorize(&two.id(), &earlier, two.text("content_hash")).await.code(), "AU002");
    let next = bank.code(&aoi.user, 1);
    assert_eq!(phone.authorize(&two.id(), &next, two.text("content_hash")).await.status, 200);
    for answer in [&one, &two] {
        assert_eq!(phone.confirm(&answer.id()).await.status, 200);
    }
    bank.assert_transfers(2).await;
}

#[tokio::test]
async fn the_same_approval_again_is_replayed_also_after_its_step() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    let (hash, code) = (instruction.text("content_hash"), bank.code(&aoi.user, 0));
    let first = phone.authorize(&instruction.id(), &code, hash).await;
    let before = bank.snapshot().await;
    for advance_s in [0, 30, 30, 120] {
        bank.advance_s(advance_s);
        let again = phone.authorize(&instruction.id(), &code, hash).await;
        assert_eq!((again.status, again.is_replayed(), &again.body), (200, true, &first.body));
    }
    bank.assert_unchanged(&before, "a repeat").await;
    assert_eq!(phone.authorize(&instruction.id(), &code, "v1:other").await.code(), "AU006");
    bank.assert_unchanged(&before, "other content").await;
    // Another session's repeat of the code is a guess.
    let refused = bank.client(&aoi, "s2").authorize(&instruction.id(), &code, hash).await;
    refused.assert_problem(403, "AU002", "another session");
    assert_eq!(refused.body["money_moved"], "unknown");
    assert_eq!(bank.totp_number(&aoi, "failure_count").await, 1);
}

#[tokio::test]
async fn authorizing_again_replaces_the_authorization() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let first = phone.authorized(&bank, &key("one"), &transfer(&aoi, &ren, 40_000)).await;
    let first_code = bank.code(&aoi.user, 0);
    bank.advance_s(50);
    let tablet = bank.client(&aoi, "s2");
    let hash = first.text("content_hash");
    let second = tablet.authorize(&first.id(), &bank.code(&aoi.user, 0), hash).await;
    assert_eq!(second.status, 200);
    assert_eq!(second.text("authorized_until"), "2026-12-01T03:01:50.000Z");
    let steps: Vec<_> = second.body["history"].as_array().unwrap().iter().map(|step| step["step"].clone()).collect();
    assert_eq!(steps, ["AWAITING_AUTHORIZATION", "AUTHORIZED", "AUTHORIZED"]);
    assert_ne!(second.body["history"][1]["session"], second.body["history"][2]["session"]);
    // The replaced approval is no repeat any more.
    assert_eq!(phone.authorize(&first.id(), &first_code, hash).await.code(), "AU002");
    assert_eq!(phone.confirm(&first.id()).await.body["reason"], "other-session");
    assert_eq!(tablet.confirm(&first.id()).await.status, 200);
    bank.assert_transfers(1).await;
}

#[tokio::test]
async fn five_wrong_codes_lock_for_a_quarter_of_an_hour() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let mut instruction = requested(&phone, &aoi, &ren, 40_000).await;
    for _ in 0..5 {
        let wrong = bank.wrong_code(&aoi.user);
        let refused = phone.authorize(&instruction.id(), &wrong, instruction.text("content_hash")).await;
        refused.assert_problem(403, "AU002", "one of five");
        bank.advance_s(1);
    }
    // Locked at 4 s after the start, until 904 s. The right code is not even tested.
    for (advance_ms, wait_s) in [(0, 899), (1, 899), (590_000, 309), (308_998, 1), (1, 0)] {
        bank.advance_ms(advance_ms);
        if wait_s == 309 {
            // The first one is past its time by the end of the lock.
            instruction = requested(&phone, &aoi, &ren, 30_000).await;
        }
        let before = bank.snapshot().await;
        let code = bank.code(&aoi.user, 0);
        let answer = phone.authorize(&instruction.id(), &code, instruction.text("content_hash")).await;
        if wait_s == 0 {
            assert_eq!(answer.status, 200, "{}", answer.body);
            continue;
        }
        answer.assert_problem(429, "AU003", &format!("{wait_s} s before the end"));
        assert_eq!((&answer.body["retry_after_s"], answer.text("retry_with")), (&json!(wait_s), "new-authorization"));
        bank.assert_unchanged(&before, "while locked").await;
    }
}

/// Sends `count` wrong codes one after another; all are refused as such.
async fn guess_wrong(bank: &Bank, phone: &Client, instruction: &(String, String), count: usize) {
    for _ in 0..count {
        let answer = phone.authorize(&instruction.0, &bank.wrong_code(&phone.user), &instruction.1).await;
        assert_eq!(answer.code(), "AU002");
    }
}

#[tokio::test]
async fn a_right_code_resets_the_counter() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let answer = requested(&phone, &aoi, &ren, 40_000).await;
    let instruction = (answer.id(), answer.text("content_hash").to_owned());
    for _ in 0..3 {
        guess_wrong(&bank, &phone, &instruction, 4).await;
        assert_eq!(bank.totp_number(&aoi, "failure_count").await, 4);
        let right = phone.authorize(&instruction.0, &bank.code(&aoi.user, 0), &instruction.1).await;
        assert_eq!((right.status, bank.totp_number(&aoi, "failure_count").await), (200, 0));
        bank.next_step();
    }
    // After a lock the budget is whole again, and no larger.
    guess_wrong(&bank, &phone, &instruction, 5).await;
    assert_eq!(phone.authorize(&instruction.0, &bank.code(&aoi.user, 0), &instruction.1).await.code(), "AU003");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_wrong_codes_at_once_are_five_guesses() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    let wrong = bank.wrong_code(&aoi.user);
    let guesses = (0..20).map(|_| {
        let (phone, id, code) = (phone.clone(), instruction.id(), wrong.clone());
        let hash = instruction.text("content_hash").to_owned();
        tokio::spawn(async move { phone.authorize(&id, &code, &hash).await.code().to_owned() })
    });
    let codes: Vec<_> = join_all(guesses).await.into_iter().map(Result::unwrap).collect();
    let count = |code: &str| codes.iter().filter(|answer| *answer == code).count();
    assert_eq!((count("AU002"), count("AU003")), (5, 15), "{codes:?}");
    assert_eq!(bank.totp_number(&aoi, "failure_count").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_route_that_tests_a_code_shares_one_guess_budget() {
    let (bank, aoi, ren, phone) = aoi_and_ren(70_000).await;
    let instruction = requested(&phone, &aoi, &ren, 40_000).await;
    let proof = json!({ "totp_code": bank.code(&aoi.user, 0) });
    assert_eq!(phone.post("/v1/totp", &[], &proof).await.status, 201); // now one is pending
    let wrong = bank.wrong_code(&aoi.user);
    let approval = json!({ "totp_code": wrong, "content_hash": instruction.text("content_hash") });
    let guess = json!({ "totp_code": wrong });
    let routes: [(String, Value); 3] = [
        (format!("/v1/transfers/{}/authorization", instruction.id()), approval),
        ("/v1/totp/activation".to_owned(), guess.clone()),
        ("/v1/totp".to_owned(), guess),
    ];
    let guesses = (0..21).map(|index| {
        let (phone, (path, body)) = (phone.clone(), routes[index % 3].clone());
        tokio::spawn(async move { phone.post(&path, &[], &body).await.code().to_owned() })
    });
    let codes: Vec<_> = join_all(guesses).await.into_iter().map(Result::unwrap).collect();
    let count = |code: &str| codes.iter().filter(|answer| *answer == code).count();
    assert_eq!((count("AU002"), count("AU003")), (5, 16), "{codes:?}");
    for (path, body) in routes {
        phone.post(&path, &[], &body).await.assert_problem(429, "AU003", &path);
    }
}
