use super::super::style::Colours;
use super::*;

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn ctrl(c: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)
}

fn typed(text: &str) -> Editor {
    let mut editor = Editor::default();
    for c in text.chars() {
        assert_eq!(editor.key(key(KeyCode::Char(c))), None);
    }
    editor
}

#[test]
fn keys_move_and_remove_whole_letters() {
    let mut editor = typed("a👩\u{200d}💻e\u{301}");
    editor.key(key(KeyCode::Left));
    editor.key(key(KeyCode::Backspace));
    assert_eq!(editor.text(), "ae\u{301}");
    editor.key(key(KeyCode::Delete));
    editor.key(key(KeyCode::Delete));
    assert_eq!(editor.text(), "a");
}

#[test]
fn words_and_lines_are_removed() {
    let mut editor = typed("one two three");
    editor.key(ctrl('w'));
    assert_eq!(editor.text(), "one two ");
    editor.key(KeyEvent::new(KeyCode::Left, KeyModifiers::ALT));
    editor.key(ctrl('k'));
    assert_eq!(editor.text(), "one ");
    editor.key(ctrl('u'));
    assert_eq!(editor.text(), "");
    assert_eq!(editor.key(ctrl('d')), Some(Wish::Quit));
}

#[test]
fn line_breaks_of_a_paste_do_not_submit() {
    let mut editor = typed("see: ");
    editor.paste("a\r\nb\rc");
    assert_eq!(editor.text(), "see: a\nb\nc");
    assert_eq!(editor.key(key(KeyCode::Enter)), Some(Wish::Submit("see: a\nb\nc".into())));
    assert_eq!(editor.text(), "");
    assert_eq!(editor.key(key(KeyCode::Enter)), None);
}

#[test]
fn a_returned_text_stands_before_the_typed_one() {
    let mut editor = typed("two");
    editor.key(key(KeyCode::Left));
    editor.give_back("one");
    editor.key(key(KeyCode::Char('!')));
    assert_eq!(editor.text(), "one\ntw!o");
    editor.replace("");
    editor.give_back("one");
    assert_eq!(editor.key(key(KeyCode::Enter)), Some(Wish::Submit("one".into())));
}

#[test]
fn a_backslash_continues_the_line() {
    let mut editor = typed("one\\");
    assert_eq!(editor.key(key(KeyCode::Enter)), None);
    editor.key(key(KeyCode::Char('2')));
    assert_eq!(editor.key(ctrl('s')), Some(Wish::Steer("one\n2".into())));
}

#[test]
fn earlier_texts_and_the_typed_one_can_be_restored() {
    let mut editor = typed("first");
    editor.key(key(KeyCode::Enter));
    for c in "second".chars() {
        editor.key(key(KeyCode::Char(c)));
    }
    editor.key(key(KeyCode::Enter));
    editor.key(key(KeyCode::Char('x')));
    let mut seen = Vec::new();
    for code in [KeyCode::Up, KeyCode::Up, KeyCode::Up, KeyCode::Down, KeyCode::Down, KeyCode::Down] {
        editor.key(key(code));
        seen.push(editor.text().to_owned());
    }
    assert_eq!(seen, ["second", "first", "first", "second", "x", "x"]);
}

#[test]
fn up_and_down_stay_in_their_column() {
    let mut editor = Editor::default();
    editor.paste("abc\nd\nefg");
    editor.key(key(KeyCode::Up));
    editor.key(key(KeyCode::Char('1')));
    editor.key(key(KeyCode::Up));
    editor.key(key(KeyCode::Char('2')));
    editor.key(key(KeyCode::Down));
    editor.key(key(KeyCode::Down));
    editor.key(key(KeyCode::Char('3')));
    assert_eq!(editor.text(), "ab2c\nd1\nef3g");
}

#[test]
fn a_long_text_shows_the_rows_around_the_cursor() {
    let mut editor = typed("日本語 abc\x1b");
    let shown = editor.show(9, 2);
    let text: Vec<String> = shown.lines.iter().map(|line| line.paint(Colours::Off)).collect();
    assert_eq!((text, shown.cursor), (vec!["› 日本語".to_owned(), "   abc␛".to_owned()], (1, 7)));
    for _ in 0..4 {
        editor.key(key(KeyCode::Enter));
    }
    editor.paste("1\n2\n3\n4");
    let shown = editor.show(9, 2);
    let text: Vec<String> = shown.lines.iter().map(|line| line.paint(Colours::Off)).collect();
    assert_eq!((text, shown.cursor), (vec!["  3".to_owned(), "  4".to_owned()], (1, 3)));
}

/// Ctrl-R finds an earlier text by some of its words, an older one with each press; Esc cancels.
#[test]
fn an_earlier_text_is_found_by_its_words() {
    let mut editor = typed("half");
    for said in ["count to 3", "what is kelp?", "count to 5"] {
        editor.earlier_mut().add(said);
    }
    editor.key(ctrl('r'));
    for c in "count".chars() {
        editor.key(key(KeyCode::Char(c)));
    }
    assert_eq!((editor.searched(), editor.text()), (Some("count"), "count to 5"));
    editor.key(ctrl('r'));
    assert_eq!(editor.text(), "count to 3");
    editor.key(ctrl('r'));
    assert_eq!(editor.text(), "count to 3", "there is no older one");
    editor.key(key(KeyCode::Esc));
    assert_eq!((editor.searched(), editor.text()), (None, "half"));
    editor.key(ctrl('r'));
    editor.key(key(KeyCode::Char('k')));
    assert_eq!(editor.key(key(KeyCode::Enter)), None, "the match can be edited");
    assert_eq!(editor.text(), "what is kelp?");
    assert_eq!(editor.key(key(KeyCode::Enter)), Some(Wish::Submit("what is kelp?".into())));
    assert_eq!(editor.key(ctrl('g')), Some(Wish::Outside));
}
