use super::*;

const HOUR: Duration = Duration::from_secs(60 * 60);

fn scene() -> (tempfile::TempDir, StateDirectory) {
    let root = tempfile::tempdir().unwrap();
    let state = StateDirectory::open(&root.path().join("state")).unwrap();
    (root, state)
}

/// A chat that was last used so long ago, with a file of so many bytes.
fn used(state: &StateDirectory, number: u128, ago: Duration, bytes: usize) -> PathBuf {
    let chat = ChatId::from_u128(number);
    let temporary = state.chat(chat).unwrap().temporary().unwrap();
    fs::write(temporary.join("file"), vec![0; bytes]).unwrap();
    let directory = state.path().join(chat.to_string());
    File::open(&directory).unwrap().set_modified(crate::clock::wall_time() - ago).unwrap();
    directory
}

#[test]
fn state_is_bounded_by_age_and_size() {
    let (_root, state) = scene();
    let old = used(&state, 1, AGE_MAX + HOUR, 1);
    let large_and_resting = used(&state, 2, 3 * HOUR, 900);
    let small = used(&state, 3, 2 * HOUR, 100);
    let in_use = used(&state, 4, Duration::ZERO, 5_000);
    state.sweep_to(crate::clock::wall_time(), 5_100).unwrap();
    assert_eq!([&old, &large_and_resting, &small, &in_use].map(|path| path.exists()), [false, false, true, true]);
    assert!(state.lock().exists());
}

#[test]
fn a_chat_is_forgotten_with_its_read_only_directories() {
    let (_root, state) = scene();
    let directory = used(&state, 1, Duration::ZERO, 1);
    let stubborn = directory.join("temporary/stubborn");
    fs::create_dir(&stubborn).unwrap();
    fs::write(stubborn.join("file"), "x").unwrap();
    fs::set_permissions(&stubborn, fs::Permissions::from_mode(0o000)).unwrap();
    state.forget(ChatId::from_u128(1)).unwrap();
    assert!(!directory.exists());
    state.forget(ChatId::from_u128(1)).unwrap();
}

#[test]
fn others_cannot_look_into_the_state() {
    let (_root, state) = scene();
    let mode = state.path().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
