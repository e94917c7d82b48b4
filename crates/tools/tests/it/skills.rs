//! Skills, as a model uses them.

use std::path::Path;

use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn::{Tool, ToolContext};
use everturn_tools::Skills;
use serde_json::json;
use tempfile::TempDir;

fn skill(directory: &Path, name: &str, text: &str) {
    std::fs::create_dir_all(directory.join(name)).unwrap();
    std::fs::write(directory.join(name).join("SKILL.md"), text).unwrap();
}

fn good(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n\n# How\n\nDo {name}.\n")
}

async fn shown(tool: &impl Tool, input: serde_json::Value) -> Result<String, String> {
    let context = ToolContext::new(ChatId::from_u128(7), CallUid { step: StepId(1), ordinal: 0 });
    let output = tool.run(context, input).await.map_err(|error| error.message)?;
    Ok(String::from_utf8(output.output().unwrap().bytes).unwrap())
}

/// TA08: name and description are offered, the body is read when it is used, and other files one by one.
#[tokio::test]
async fn a_skill_is_offered_and_read_when_it_is_used() {
    let scratch = TempDir::new().unwrap();
    skill(scratch.path(), "deploy", &good("deploy", "\"Deploys: the site, with care.\""));
    skill(
        scratch.path(),
        "release",
        "---\nname: release\n# a comment\ndescription: >\n  Makes a\n  release.\nallowed-tools: Bash\n---\nTag it.",
    );
    std::fs::create_dir_all(scratch.path().join("deploy/scripts")).unwrap();
    std::fs::write(scratch.path().join("deploy/scripts/go.sh"), "echo go\n").unwrap();
    let skills = Skills::read([scratch.path()]).unwrap();
    assert_eq!(skills.left_out(), &[] as &[String]);
    let tool = skills.tool().unwrap();
    let spec = tool.spec();
    assert!(
        spec.description.ends_with("- deploy: Deploys: the site, with care.\n- release: Makes a release."),
        "{}",
        spec.description
    );
    assert!(!spec.description.contains("Do deploy"), "the body is not offered");
    assert_eq!(spec.input_schema["properties"]["name"]["enum"], json!(["deploy", "release"]));
    let body = shown(&tool, json!({"name": "deploy"})).await.unwrap();
    assert!(body.starts_with("# How\n\nDo deploy.") && body.ends_with("`file`:]\nscripts/go.sh"), "{body}");
    assert_eq!(shown(&tool, json!({"name": "deploy", "file": "scripts/go.sh"})).await.unwrap(), "echo go\n");
    assert_eq!(shown(&tool, json!({"name": "release"})).await.unwrap(), "Tag it.");
}

/// TA08: skills that cannot be used are left out with the reason, and the others are offered. Of two with one name the first
/// counts.
#[tokio::test]
async fn skills_that_cannot_be_used_are_left_out_with_the_reason() {
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    skill(first.path(), "twice", &good("twice", "The first."));
    skill(second.path(), "twice", &good("twice", "The second."));
    skill(first.path(), "open", "---\nname: open\ndescription: It has no end.\n");
    skill(first.path(), "plain", "# Only words\n");
    skill(first.path(), "nameless", "---\ndescription: Something.\n---\n");
    skill(first.path(), "silent", "---\nname: silent\n---\n");
    skill(first.path(), "other", &good("another", "Not its directory."));
    skill(first.path(), "Bad_Name", &good("Bad_Name", "No letters."));
    std::fs::create_dir_all(first.path().join("bytes")).unwrap();
    std::fs::write(first.path().join("bytes/SKILL.md"), [0xff, 0xfe]).unwrap();
    let skills = Skills::read([first.path(), second.path()]).unwrap();
    assert_eq!(skills.names().collect::<Vec<_>>(), ["twice"]);
    let told = skills.left_out().join("\n");
    for (skill, why) in [
        ("open", "does not end with `---`"),
        ("plain", "does not begin with `---`"),
        ("nameless", "no `name`"),
        ("silent", "no `description`"),
        ("other", "the name of its directory"),
        ("Bad_Name", "letters a to z"),
        ("bytes", "not UTF-8"),
        ("twice", "the same name and comes first"),
    ] {
        let is_told = skills.left_out().iter().any(|line| line.contains(&format!("/{skill}/")) && line.contains(why));
        assert!(is_told, "{skill}: {told}");
    }
    let body = skills.tool().unwrap().spec().description;
    assert!(body.contains("The first.") && !body.contains("The second."), "{body}");
    assert!(Skills::read(["/nowhere/at/all"]).unwrap_err().to_string().contains("/nowhere/at/all"));
    assert!(Skills::read([TempDir::new().unwrap().path()]).unwrap().tool().is_none(), "no skills, no tool");
}

/// TA08: five hundred skills with long descriptions fit a bounded list, each by its name, and a long body is cut. A file
/// outside the skill's directory is not shown.
#[tokio::test]
async fn many_and_long_skills_are_bounded() {
    let scratch = TempDir::new().unwrap();
    for number in 0..501 {
        skill(scratch.path(), &format!("skill-{number:03}"), &good(&format!("skill-{number:03}"), &"é".repeat(2_000)));
    }
    skill(scratch.path(), "skill-000", &format!("{}{}", good("skill-000", "Long."), "é".repeat(100_000)));
    std::fs::write(scratch.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", scratch.path().join("skill-001/link")).unwrap();
    let skills = Skills::read([scratch.path()]).unwrap();
    assert_eq!((skills.names().count(), skills.left_out().len()), (500, 1));
    let tool = skills.tool().unwrap();
    let description = tool.spec().description;
    assert!(description.len() < 18 * 1024, "{}", description.len());
    assert!(description.contains("- skill-000: ") && description.contains("- skill-499: "), "{description}");
    let long = shown(&tool, json!({"name": "skill-000"})).await.unwrap();
    assert!(long.len() < 42 * 1024 && long.ends_with("more bytes are left out]"), "{}", long.len());
    for file in ["../secret", "link", "/etc/passwd", "missing"] {
        let refused = shown(&tool, json!({"name": "skill-001", "file": file})).await.unwrap_err();
        assert!(!refused.contains("root:") && refused.contains(file), "{refused}");
    }
}
