//! What nextest wrote about its last run.
//!
//! The file is JUnit XML, of which we need three things: the name of each test, its binary, and whether it failed. So this
//! reads tags and attributes and nothing else; text and CDATA are skipped because nextest escapes what tests print.

use anyhow::{Result, ensure};

/// One test that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestResult {
    /// The binary, in nextest's words: `everturn::it`.
    pub binary: String,
    /// The name inside the binary.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
}

/// Reads the results.
pub fn parse(xml: &str) -> Result<Vec<TestResult>> {
    ensure!(xml.contains("<testsuites"), "this is not what nextest writes");
    let mut results: Vec<TestResult> = Vec::new();
    for tag in tags(xml) {
        let name = tag.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default();
        match name {
            "testcase" => results.push(TestResult {
                binary: attribute(tag, "classname").unwrap_or_default(),
                name: attribute(tag, "name").unwrap_or_default(),
                passed: true,
            }),
            "failure" | "error" | "skipped" => {
                if let Some(result) = results.last_mut() {
                    result.passed = false;
                }
            }
            _ => {}
        }
    }
    Ok(results)
}

/// `12 tests run, 1 failed`.
pub fn count(results: &[TestResult]) -> String {
    let failed = results.iter().filter(|result| !result.passed).count();
    format!("{} tests run, {failed} failed", results.len())
}

/// What stands between `<` and `>`, opening tags only.
fn tags(xml: &str) -> impl Iterator<Item = &str> {
    let mut rest = xml;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[rest.find('<')? + 1..];
            if let Some(text) = rest.strip_prefix("![CDATA[") {
                rest = &text[text.find("]]>")?..];
                continue;
            }
            // A quoted attribute may hold a bare `>`.
            let mut quoted = false;
            let end = rest.find(|c| {
                quoted ^= c == '"';
                c == '>' && !quoted
            })?;
            let tag = &rest[..end];
            rest = &rest[end..];
            if !tag.starts_with(['/', '?', '!']) {
                return Some(tag);
            }
        }
    })
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    let value = &tag[start..];
    let value = &value[..value.find('"')?];
    let plain = value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    Some(plain.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1">
    <testsuite name="everturn-core" tests="2">
        <testcase name="draft::tests::a_cut" classname="everturn-core" time="0.010">
        </testcase>
        <testcase name="seam::joins" classname="everturn-core" time="0.010">
            <failure message="left &lt; right: a > b" type="test failure">thread &lt;testcase name=&quot;no&quot;&gt;</failure>
            <system-out><![CDATA[<testcase name="neither" classname="x"/>]]></system-out>
        </testcase>
    </testsuite>
    <testsuite name="everturn::it"><testcase name="a&lt;b&gt;" classname="everturn::it"/></testsuite>
</testsuites>"#;

    #[test]
    fn names_and_failures_are_read() {
        let results = parse(XML).expect("this is what nextest writes");
        let seen: Vec<_> = results.iter().map(|r| format!("{} {} {}", r.binary, r.name, r.passed)).collect();
        assert_eq!(
            seen,
            ["everturn-core draft::tests::a_cut true", "everturn-core seam::joins false", "everturn::it a<b> true"]
        );
        assert_eq!(count(&results), "3 tests run, 1 failed");
    }

    #[test]
    fn something_else_is_refused() {
        assert!(parse("no xml").is_err());
    }
}
