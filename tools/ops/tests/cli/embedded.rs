//! The binary on the tables of the embedded server, while it runs.

use crate::stand::{Run, run};
use local::{Options, Server};
use tokio::process::Command;

async fn ops(server: &Server, line: &str) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ops"));
    command.args(line.split(' ')).env_clear().env("USER", "hana").envs(server.operator_variables());
    run(&mut command).await
}

#[tokio::test]
async fn what_the_embedded_server_prints_is_enough_for_the_operators() {
    let server = Server::start(Options::default()).await.unwrap();
    let welcome = server.welcome();
    for (name, value) in server.operator_variables() {
        assert!(welcome.contains(&format!("\nexport {name}={value}\n")), "{welcome}");
        assert_ne!(name, "FURIKOMI_LOCAL_KEY");
    }
    let opened = ops(&server, "accounts open ac_mio --owner mio --name Mio --currency JPY").await;
    assert_eq!(opened.code, 0, "{opened:?}");
    for _ in 0..2 {
        let run = ops(&server, "deposit ac_mio 500 --reference salary --json").await;
        assert_eq!(run.code, 0, "{run:?}");
    }
    let after = ops(&server, "accounts show ac_mio --json").await.json();
    assert_eq!(after["balance_minor"], 500, "{after}");
    let verified = ops(&server, "verify --json").await;
    let said = verified.json();
    assert_eq!((verified.code, &said["violations"]), (0, &serde_json::json!([])), "{said}");
    let counts = [&said["counts"]["accounts"], &said["counts"]["deposits"]];
    assert_eq!(counts, [4, 2], "Aoi, Ren, Mio and the bank; Aoi's opening deposit and Mio's: {said}");
    server.stop().await;
}
