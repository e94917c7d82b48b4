//! The proof, and whether it can fail.

use std::process::Output;

use serde_json::Value;

use crate::daemon::everturn;
use crate::pty::Terminal;

async fn demo(arguments: &[&str], sabotage: &str) -> Output {
    let arguments: Vec<&str> = ["demo", "--quick"].iter().chain(arguments).copied().collect();
    everturn(&arguments).env("EVERTURN_SABOTAGE", sabotage).output().await.unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

/// Every fault on every wire: the books balance, and every rung of the ladder was climbed on the way.
#[tokio::test]
async fn the_ledger_balances_whatever_breaks() {
    let output = demo(&["--seed", "1", "--json"], "").await;
    let ledger: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!((output.status.code(), &ledger["balanced"]), (Some(0), &Value::Bool(true)), "{ledger:#}");
    assert_eq!((&ledger["lost"], &ledger["duplicated"]), (&0.into(), &0.into()));
    let rows = ledger["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 10 * 4 + 2, "all faults on four wires, and one on the two that keep generations");
    for row in rows {
        let shown = row["shown"].as_array().unwrap();
        assert_eq!((shown.len(), &shown[0], &shown[1]), (2, &row["stored"], &row["stored"]), "{row:#}");
        assert!(row["sent"].as_u64() >= row["stored"].as_u64(), "{row:#}");
        assert!(row["cost_micros"].as_u64().unwrap() > 0, "{row:#}");
    }
    let rungs: Vec<&Value> = rows.iter().flat_map(|row| row["rungs"].as_array().unwrap()).collect();
    for rung in ["continue", "restart", "re-attach", "salvage"] {
        assert!(rungs.iter().any(|climbed| *climbed == rung), "no attempt had to {rung}: {rungs:?}");
    }
    let killed = rows.iter().filter(|row| row["scene"] == "kill-tool");
    let unknown: u64 = killed.map(|row| row["calls"]["unknown"].as_u64().unwrap()).sum();
    assert!(unknown > 0, "a tool that must not run twice was killed while it ran");
}

/// Other seeds, in a pipe: plain lines, a ledger at the end, and how to have it again.
#[tokio::test]
async fn a_pipe_gets_plain_lines() {
    for seed in ["2", "3"] {
        let faults = ["--fault", "input", "--fault", "kill@9", "--fault", "stop", "--wire", "chat", "--wire", "gemini"];
        let output = demo(&[["--seed", seed].as_slice(), &faults].concat(), "").await;
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
        assert!(!said.contains('\x1b'), "{said}");
        for part in ["✓ The ledger balances: lost 0, duplicated 0", &format!("seed {seed}"), "kill -9 ", "client B"] {
            assert!(said.contains(part), "{part} is missing:\n{said}");
        }
    }
}

#[tokio::test]
async fn a_fault_that_nobody_knows_is_refused() {
    let output = demo(&["--fault", "earthquake"], "").await;
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("kill-tool"), "the faults there are: {}", text(&output.stderr));
}

/// On a terminal bars move below the lines, and nothing of them is left; a narrow one, or one that becomes
/// narrow, has none.
#[tokio::test]
async fn a_terminal_gets_bars_that_fit() {
    let arguments = ["demo", "--quick", "--seed", "1", "--fault", "cut", "--fault", "stall", "--wire", "chat"];
    for (size, later, has_bars) in [((100, 40), None, true), ((50, 40), None, false), ((100, 40), Some((50, 40)), true)]
    {
        let mut terminal = Terminal::start(&arguments, &[], size);
        if has_bars {
            terminal.until("bars", |window| window.contains("A █") && window.contains("B ")).await;
        }
        let mut before = usize::MAX;
        if let Some(size) = later {
            terminal.resize(size);
            terminal.shows("2/2 stall").await;
            before = terminal.bytes.len();
        }
        assert!(terminal.ended().await.success(), "{}", terminal.all());
        let all = terminal.all();
        assert!(all.contains("The ledger balances") && all.contains("everturn demo --seed 1"), "{size:?}:\n{all}");
        assert!(!all.contains('█') && !all.contains('░'), "bars are left, {size:?}:\n{all}");
        assert_eq!(String::from_utf8_lossy(&terminal.bytes).contains('█'), has_bars, "{size:?}");
        let narrow = String::from_utf8_lossy(terminal.bytes.get(before..).unwrap_or_default());
        assert!(!narrow.contains('█'), "there is no room for bars any more:\n{all}");
    }
}

/// A daemon that loses one delta, runs a tool twice or not at all, and a stand-in that breaks nothing: the
/// demo fails, and says which.
#[cfg(feature = "sabotage")]
#[tokio::test]
async fn a_daemon_that_lies_is_found_out() {
    for (lie, fault, said) in [
        ("lose-delta", "join", "the store lost 1 of the tokens: t"),
        ("tool-twice", "join", "ran twice, and must not: 2 starts, 2 effects in the side file"),
        ("no-tool", "join", "is said to be done and left no effect"),
        ("no-fault", "stall", "the fault did not strike: no attempt had to continue or restart"),
        ("no-fault", "429", "the fault did not strike: 2 attempts were enough for 2 steps"),
    ] {
        let output = demo(&["--seed", "1", "--fault", fault, "--wire", "responses"], lie).await;
        assert_eq!(output.status.code(), Some(1), "{lie}: {}", text(&output.stderr));
        let told = text(&output.stdout);
        let last = told.lines().last().unwrap_or_default();
        assert!(told.contains("✗ The ledger does not balance") && told.contains(said), "{lie}: {told}");
        assert!(last.contains('✗'), "what is wrong is said last: {last}");
    }
}
