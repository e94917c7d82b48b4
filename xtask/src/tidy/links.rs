//! Links within the repository lead somewhere.
//!
//! Links to files and to headings of files are followed. Links to other sites are not: the check works without a network.

use std::collections::{BTreeMap, BTreeSet};

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::Violation;

/// Checks the pages among these files. Each comes with its text.
pub fn check(files: &BTreeMap<&str, &str>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (line, link) in links(text) {
            if let Some(what) = broken(path, &link, files) {
                violations.push(Violation::new(path, line, what));
            }
        }
    }
    violations
}

/// What is wrong with a link, if anything.
fn broken(page: &str, link: &str, files: &BTreeMap<&str, &str>) -> Option<String> {
    if link.contains(':') {
        return None; // Another site, or a mail address.
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let file = if path.is_empty() { page.to_owned() } else { beside(page, path) };
    let dir = format!("{file}/");
    match files.get(file.as_str()) {
        Some(text) if heading.is_empty() || headings(text).contains(heading) => None,
        Some(_) => Some(format!("{file} has no heading #{heading}: link to one that it has")),
        None if heading.is_empty() && files.keys().any(|name| name.starts_with(&dir)) => None,
        None => Some(format!("there is no {file}: link to a file that is there")),
    }
}

/// A path that is relative to the directory of a page, relative to the root.
pub fn beside(page: &str, path: &str) -> String {
    let mut names: Vec<&str> = page.split('/').collect();
    names.pop();
    for name in path.trim_end_matches('/').split('/') {
        match name {
            "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}

/// The links and pictures of a page, each with its line.
pub fn links(text: &str) -> Vec<(usize, String)> {
    let events = Parser::new(text).into_offset_iter();
    let to = |(event, range): (Event<'_>, std::ops::Range<usize>)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((text[..range.start].lines().count().max(1), dest_url.into_string()))
        }
        _ => None,
    };
    events.filter_map(to).collect()
}

/// The anchors of a page's headings, as sites that show Markdown make them.
fn headings(text: &str) -> BTreeSet<String> {
    let (mut anchors, mut heading) = (BTreeSet::new(), None);
    for event in Parser::new(text) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::Text(words) | Event::Code(words), Some(heading)) => heading.push_str(&words),
            (Event::End(TagEnd::Heading(_)), _) => anchors.extend(heading.take().map(|words| anchor(&words))),
            _ => {}
        }
    }
    anchors
}

fn anchor(words: &str) -> String {
    let letters = words.to_lowercase().replace(' ', "-");
    letters.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let files = BTreeMap::from([
            ("README.md", "# Here\n"),
            ("docs/a.md", page),
            ("docs/b.md", "# One, `two` & three\n"),
            ("docs/deploy/c.yaml", ""),
        ]);
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_directories_and_headings_that_are_there_may_be_linked_to() {
        let links = ["../README.md", "b.md", "b.md#one-two--three", "#down", "deploy", "deploy/", "deploy/c.yaml"];
        for link in links.into_iter().chain(["https://a.example/b#c", "mailto:a@b.example"]) {
            assert!(found(&format!("See [this]({link}).\n\n## Down\n")).is_empty(), "{link}");
        }
        assert!(found("`[code](gone.md)`\n\n```\n[code](gone.md)\n```\n").is_empty());
    }

    #[test]
    fn what_is_gone_is_found_where_the_link_stands() {
        let gone = "docs/a.md:3: there is no docs/gone.md: link to a file that is there";
        assert_eq!(found("One.\n\nSee [this\n](gone.md), ![that](gone.md#x).\n")[0], gone);
        assert_eq!(found("[x](b.md#two)"), ["docs/a.md:1: docs/b.md has no heading #two: link to one that it has"]);
        assert_eq!(found("[x](../b.md)").len(), 1);
    }
}
