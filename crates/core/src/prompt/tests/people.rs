//! What people and programs say: words, files, context and summaries.

use expect_test::expect;

use super::build::{
    calls, check, check_for, context, file, media, reply, result_with, says, shown, signed, source, summary, target,
    transcript, user,
};
use crate::message::{Body, CallVerdict, Output};
use crate::prompt::{INLINE_BYTES_MAX, PromptPart, Target, WireFormat, prepare};

#[test]
fn context_is_told_as_the_person_would() {
    check(
        [user("go"), context("it is noon"), context(" "), user("now")],
        expect![[r#"
        user
          "go"
          "it is noon"
          "now"
    "#]],
    );
}

/// PR15: a file goes along with what the person said, or its absence is said; an empty one is nothing.
#[test]
fn files_are_sent_or_their_absence_is_said() {
    check(
        [Body::User(vec![
            says("look"),
            file("a.png", "image/png", Some(b"png")),
            file("b.jpg", "Image/JPG; q=1", Some(b"jpg")),
            file("gone.png", "image/png", None),
            file("empty.png", "image/png", Some(b"")),
            file("c.zip", "application/zip", Some(b"zipped")),
            file("d", "", Some(b"?")),
        ])],
        expect![[r#"
            user
              "look"
              file image/png 3
              file image/jpeg 3
              "(A file that is no longer available: gone.png, image/png, no bytes.)"
              "(A file that cannot be shown here: c.zip, application/zip, 6 bytes.)"
              "(A file that cannot be shown here: d, 1 bytes.)"
        "#]],
    );
}

/// PR16: text files go as words where the target takes no such files, cut between characters.
#[test]
fn text_files_go_as_words() {
    check(
        [Body::User(vec![
            file("a.rs", "text/x-rust", Some("fn ä() {}".as_bytes())),
            file("b.json", "application/json", Some(b"{}")),
            file("c.svg", "image/svg+xml", Some(b"<svg/>")),
            file("d.txt", "text/plain", Some(b"\xff\0!")),
            file("blank.txt", "text/plain", Some(b" \n")),
        ])],
        expect![[r#"
            user
              "(A file: a.rs, text/x-rust, as text.)\nfn ä() {}"
              "(A file: b.json, application/json, as text.)\n{}"
              "(A file that cannot be shown here: c.svg, image/svg+xml, 6 bytes.)"
              "(A file: d.txt, text/plain, as text.)\n�␀!"
        "#]],
    );
    let reader = Target { user_media: vec!["text/plain".into()], ..target(WireFormat::Anthropic) };
    check_for(
        &reader,
        [Body::User(vec![file("a.txt", "text/plain", Some(b"x"))])],
        expect![[r#"
        user
          file text/plain 1
    "#]],
    );
}

/// PR16: a paste is cut at its bound, never inside a character, and what is missing is counted.
#[test]
fn a_long_text_file_is_cut_between_characters() {
    let text = "ä".repeat(INLINE_BYTES_MAX);
    let bodies = [Body::User(vec![file("a.txt", "text/plain", Some(&text.as_bytes()[..text.len() - 2]))])];
    let entries = prepare(&transcript(bodies), &target(WireFormat::Anthropic));
    let sent = shown(&entries);
    assert!(sent.contains(&format!("({} more bytes of the file are left out.)", INLINE_BYTES_MAX - 2)));
    assert!(!sent.contains('\u{fffd}'));
}

/// A picture that is called what it is not is called what it is: providers look, and refuse the whole request.
#[test]
fn a_picture_goes_by_its_true_type() {
    let jpeg: &[u8] = b"\xff\xd8\xff\xe0";
    let cases: [(&str, &[u8], &str); 7] = [
        ("image/png", jpeg, "image/jpeg"),
        ("image/jpeg", b"\x89PNG\r\n\x1a\n", "image/png"),
        ("image/jpeg", b"GIF89a", "image/gif"),
        ("image/png", b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        ("image/png", b"%PDF-1.7", "application/pdf"),
        ("image/png", b"pixels", "image/png"),
        ("application/pdf", b"%PDF-1.7", "application/pdf"),
    ];
    for (said, bytes, seen) in cases {
        let output = Output { media: vec![media(said, bytes)], ..Output::default() };
        let bodies = [
            Body::User(vec![file("a", said, Some(bytes))]),
            reply([calls(1, "shoot", "{}")]),
            result_with(1, CallVerdict::Done, output),
        ];
        let sent = shown(&prepare(&transcript(bodies), &target(WireFormat::Anthropic)));
        assert!(sent.contains(&format!("file {seen} {}", bytes.len())), "{said}: {sent}");
        assert!(sent.contains(&format!("gave \"\" {seen}")), "{said}: {sent}");
    }
    let sent = prepare(
        &transcript([Body::User(vec![file("a", "text/plain", Some(b"%PDF-1.7"))])]),
        &target(WireFormat::Anthropic),
    );
    assert!(shown(&sent).contains("as text"), "a text may look like anything");
}

/// Two results: words with an image, a sound and nothing; and an image without words.
fn shots() -> [Body; 5] {
    let output = Output {
        text: "shots".into(),
        media: vec![media("image/png", b"png"), media("audio/wav", b"wav"), media("image/png", b"")],
        full: Some(b"all of it"[..].into()),
    };
    let silent = Output { media: vec![media("image/png", b"png")], ..Output::default() };
    [
        user("go"),
        reply([calls(1, "shoot", "{}"), calls(2, "shoot", "{}")]),
        result_with(1, CallVerdict::Done, output),
        result_with(2, CallVerdict::Done, silent),
        user("nice"),
    ]
}

/// PR12: media of a result stay in it where the target can see them there, move behind it where it can see them at all,
/// and are named where it cannot.
#[test]
fn media_of_a_result_are_shown_where_the_target_can_see_them() {
    for (wire, expected) in [
        (
            WireFormat::Anthropic,
            expect![[r#"
            user
              "go"
            assistant
              call_1 shoot {}
              call_2 shoot {}
            tool
              call_1 shoot gave "shots\n(A file that cannot be shown here: audio/wav, 3 bytes.)" image/png
              call_2 shoot gave "" image/png
            user
              "nice"
        "#]],
        ),
        (
            WireFormat::OpenAiResponses,
            expect![[r#"
            user
              "go"
            assistant
              call_1 shoot {}
              call_2 shoot {}
            tool
              call_1 shoot gave "shots\n(A file that cannot be shown here: audio/wav, 3 bytes.)"
              call_2 shoot gave "(no output)"
            user
              "(From the result of shoot:)"
              file image/png 3
              "(From the result of shoot:)"
              file image/png 3
              "nice"
        "#]],
        ),
        (
            WireFormat::Gemini,
            expect![[r#"
            user
              "go"
            assistant
              call_1 shoot {}
              call_2 shoot {}
            tool
              call_1 shoot gave "shots"
              call_2 shoot gave "(no output)"
            user
              "(From the result of shoot:)"
              file image/png 3
              file audio/wav 3
              "(From the result of shoot:)"
              file image/png 3
              "nice"
        "#]],
        ),
    ] {
        check_for(&target(wire), shots(), expected);
    }
}

/// U+0000 is in the transcript as it came; servers in C would stop reading there, so the model sees a symbol.
#[test]
fn nul_is_made_visible() {
    check(
        [
            user("a\0b"),
            reply([says("c\0"), calls(1, "look", "{}")]),
            result_with(1, CallVerdict::Done, Output::text("d\0e")),
            context("\0"),
        ],
        expect![[r#"
            user
              "a␀b"
            assistant
              "c␀"
              call_1 look {}
            tool
              call_1 look gave "d␀e"
            user
              "␀"
        "#]],
    );
}

#[test]
fn a_summary_stands_for_everything_before_it() {
    check(
        [
            user("long ago"),
            reply([says("yes")]),
            summary("first summary", vec![says("long ago")]),
            user("later"),
            reply([says("yes")]),
            summary(" second summary\n", vec![says("later"), file("a.png", "image/png", Some(b"png"))]),
            reply([says("on it")]),
            user("thanks"),
        ],
        expect![[r#"
            user
              "Summary of the conversation so far, in place of it:\n\nsecond summary"
              "(The newest message before this point, word for word:)"
              "later"
              file image/png 3
            assistant
              "on it"
            user
              "thanks"
        "#]],
    );
    check(
        [user("long ago"), summary("only this", vec![says(" ")])],
        expect![[r#"
        user
          "Summary of the conversation so far, in place of it:\n\nonly this"
    "#]],
    );
    check(
        [user("long ago"), summary(" ", vec![says("only that")])],
        expect![[r#"
        user
          "(The newest message before this point, word for word:)"
          "only that"
    "#]],
    );
}

#[test]
fn a_person_cannot_say_what_only_models_say() {
    let odd = Body::User(vec![says("a"), calls(1, "look", "{}"), signed("x", "sig"), source()]);
    let entries = prepare(&transcript([odd]), &target(WireFormat::Anthropic));
    assert_eq!(entries.get(0).map(|entry| entry.parts.clone()), Some(vec![PromptPart::text("a")]));
}
