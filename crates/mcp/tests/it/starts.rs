//! Servers of both generations start, and reasons are told when they do not.

use everturn_mcp::{Protocol, ServerState, ServerStatus};

use crate::{Scratch, checked, text};

async fn learned(scratch: &Scratch, name: &str, args: &[&str]) -> ServerStatus {
    scratch.servers([scratch.config(name, args)]).learn(name).await.unwrap()
}

/// TM01: a server of each generation works with the same fields, and the second start asks only the right question.
#[tokio::test]
async fn both_generations_start_and_are_remembered() {
    let scratch = Scratch::new();
    for (version, protocol, first) in [
        (
            "2025-11-25",
            Protocol::Initialize,
            vec!["server/discover", "initialize", "notifications/initialized", "tools/list"],
        ),
        ("2026-07-28", Protocol::Discover, vec!["server/discover", "tools/list"]),
    ] {
        let name = format!("of-{}", &version[..4]);
        let known = learned(&scratch, &name, &["--speaks", version]).await.known.unwrap();
        assert_eq!(known.protocol, protocol);
        assert_eq!(known.server.as_deref(), Some("understudy 1"));
        assert_eq!(scratch.methods(&name), first);
        let servers = scratch.servers([scratch.config(&name, &["--speaks", version])]);
        assert_eq!(servers.status(&name).unwrap().state, ServerState::Known);
        assert_eq!(text(&servers, &name, "echo").await, "{}");
        let second: Vec<_> = scratch.methods(&name).split_off(first.len());
        let begins = if protocol == Protocol::Initialize { "initialize" } else { "server/discover" };
        assert_eq!((second[0].as_str(), second.last().unwrap().as_str()), (begins, "tools/call"));
        assert_eq!(second.contains(&"server/discover".to_owned()), protocol == Protocol::Discover);
    }
}

/// TM02: a server that starts slowly finds both questions, and its late answers are told apart.
#[tokio::test]
async fn a_slow_server_of_either_generation_starts() {
    let scratch = Scratch::new();
    for version in ["2025-11-25", "2026-07-28"] {
        let name = format!("slow-{}", &version[..4]);
        let status = learned(&scratch, &name, &["--speaks", version, "--hold", "2"]).await;
        assert_eq!(status.known.unwrap().protocol.version(), version);
        assert_eq!(scratch.methods(&name)[..2], ["server/discover", "initialize"]);
    }
}

/// TM02: a server that prints other things, and one that ends when it is asked anything before `initialize`.
#[tokio::test]
async fn odd_servers_start() {
    let scratch = Scratch::new();
    learned(&scratch, "noise", &["--noise"]).await;
    let strict = learned(&scratch, "strict", &["--wants-initialize", "--speaks", "2025-11-25"]).await;
    assert_eq!(strict.known.unwrap().protocol, Protocol::Initialize);
}

/// TM02: a server that exits at once or never answers fails with the reason, and the others are not delayed.
#[tokio::test]
async fn servers_that_do_not_start_say_why() {
    let scratch = Scratch::new();
    let mut mute = scratch.entry("mute", &["--mute"]);
    mute.start_seconds = Some(1);
    let mut missing = scratch.entry("missing", &[]);
    missing.command = Some("/no/such/program".into());
    let configs = [
        checked("mute", mute),
        checked("missing", missing),
        scratch.config("exits", &["--exit"]),
        scratch.config("good", &[]),
    ];
    let servers = scratch.servers(configs);
    let never = servers.learn("mute");
    let mut never = std::pin::pin!(never);
    tokio::select! {
        biased;
        _ = &mut never => panic!("a mute server has started, or the other one waited for it"),
        good = servers.learn("good") => assert_eq!(good.unwrap().state, ServerState::Known),
    }
    assert_eq!(never.await.unwrap_err().reason, "it did not answer within 1 s (`start_seconds`)");
    let exits = servers.learn("exits").await.unwrap_err().reason;
    assert_eq!(exits, "it exited with code 3. It said: starting | [31mno licence found[0m");
    let missing = servers.learn("missing").await.unwrap_err().reason;
    assert!(missing.starts_with("/no/such/program cannot be run: "), "{missing}");
    let states: Vec<_> = servers.statuses().into_iter().map(|status| (status.name, status.state)).collect();
    let failed = |name: &str| (name.to_owned(), ServerState::Failed);
    assert_eq!(states, [failed("exits"), ("good".into(), ServerState::Known), failed("missing"), failed("mute")]);
    assert_eq!(servers.status("exits").unwrap().reason, Some(exits));
}

/// TM08: a server that cannot be started is offered from the tool cache, and its calls say why.
#[tokio::test]
async fn tools_of_a_dead_server_are_still_offered() {
    let scratch = Scratch::new();
    let program = scratch.path("server.sh");
    std::fs::write(&program, format!("#!/bin/sh\nexec {} \"$@\"\n", crate::UNDERSTUDY)).unwrap();
    let entry = || {
        let mut entry = scratch.entry("gone", &[]);
        entry.args.insert(0, program.display().to_string());
        entry.command = Some("/bin/sh".into());
        checked("gone", entry)
    };
    scratch.servers([entry()]).learn("gone").await.unwrap();
    std::fs::remove_file(&program).unwrap();
    let servers = scratch.servers([entry()]);
    let error = crate::call(&servers, "gone", "echo", serde_json::json!({})).await.unwrap_err();
    assert!(
        error.message.starts_with("The call was not run: the MCP server `gone` is not available: it exited"),
        "{error}"
    );
    assert_eq!(servers.status("gone").unwrap().state, ServerState::Failed);
    std::fs::write(&program, format!("exec {} \"$@\"\n", crate::UNDERSTUDY)).unwrap();
    assert_eq!(text(&servers, "gone", "echo").await, "{}", "it is started when it is there again");
}
