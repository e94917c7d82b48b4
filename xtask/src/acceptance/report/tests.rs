use super::*;
use crate::acceptance::scan::Binary;
use crate::acceptance::table::{Row, Waiver};

fn row(id: &str, due: Due) -> Row {
    Row { id: id.into(), behaviour: format!("what {id} says"), due }
}

fn test(name: &str, ids: &[&str]) -> Test {
    Test {
        file: "f.rs".into(),
        line: 1,
        name: name.into(),
        binary: Binary::Unit("everturn".into()),
        ids: ids.iter().map(|&id| id.to_owned()).collect(),
    }
}

fn result(name: &str, passed: bool) -> TestResult {
    TestResult { binary: "everturn".into(), name: name.into(), passed }
}

fn report(source: Source) -> Report {
    let rows = ["XX01", "XX02", "XX03", "XX04", "XX05"].map(|id| row(id, Due::Now));
    let table = Table {
        rows: rows.into_iter().chain([row("YY01", Due::Later), row("YY02", Due::Later)]).collect(),
        waivers: vec![Waiver { id: "XX04".into(), line: 1 }],
    };
    let tests = [test("good", &["XX01", "XX02", "XX04", "YY02"]), test("bad", &["XX02"]), test("elsewhere", &["XX05"])];
    Report::new(&table, &tests, &[result("good", true), result("bad", false)], source)
}

#[test]
fn each_behaviour_gets_the_worst_of_its_tests() {
    let seen: Vec<_> = report(Source::FreshRun).lines.iter().map(|l| format!("{} {}", l.id, l.status.name())).collect();
    assert_eq!(
        seen,
        ["XX01 pass", "XX02 fail", "XX03 missing", "XX04 waived", "XX05 unrun", "YY01 later", "YY02 pass"]
    );
}

#[test]
fn it_holds_when_nothing_that_counts_is_missing_or_failing() {
    let with = |statuses: &[Status], source| {
        let line = |&status| Line { id: "XX01".into(), behaviour: String::new(), status, tests: Vec::new() };
        Report { lines: statuses.iter().map(line).collect(), source }.holds()
    };
    assert!(with(&[Status::Pass, Status::Waived, Status::Later], Source::FreshRun));
    assert!(!with(&[Status::Missing], Source::FreshRun));
    assert!(!with(&[Status::Fail], Source::LastRun));
    assert!(!with(&[Status::Unrun], Source::FreshRun));
    assert!(with(&[Status::Unrun], Source::LastRun));
}

#[test]
fn machines_get_one_object_a_line() {
    let json = report(Source::FreshRun).json();
    let first = json.lines().next().expect("there are lines");
    assert_eq!(first, r#"{"id":"XX01","behaviour":"what XX01 says","status":"pass","tests":["everturn good"]}"#);
    assert_eq!(json.lines().count(), 7);
}

#[test]
fn people_get_a_table_and_sums() {
    let report = report(Source::FreshRun);
    let row = format!("XX02  fail     {:<100}  everturn good, everturn bad", "what XX02 says");
    assert_eq!(report.table().lines().nth(1), Some(row.as_str()));
    assert_eq!(
        report.sums(),
        "XX      5: 1 pass, 1 waived, 1 unrun, 1 missing, 1 fail\n\
         YY      2: 1 pass, 1 later\n\
         all     7: 2 pass, 1 waived, 1 later, 1 unrun, 1 missing, 1 fail\n"
    );
}
