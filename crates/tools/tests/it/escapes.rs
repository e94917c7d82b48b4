//! The list of escapes: each attempt at each level, with what is expected of it.
//!
//! A script prints `escaped` if its attempt worked and `done` at its end, so that a script which could not run at all is
//! not taken for one that was stopped. What must not have changed is looked at from outside, too.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use everturn_tools::{Access, AccessPolicy, Level};

use crate::{HELPER, Scratch, confined, levels};

/// Attempts that every level stops.
const STOPPED: &[(&str, &str)] = &[
    ("TC01 write beside the workspace", "echo x > ../x && echo escaped"),
    ("TC01 write into /etc", "echo x > /etc/everturn-x && echo escaped"),
    ("TC01 write into the parent's directory", "echo x > $OUTSIDE/x && echo escaped"),
    ("TC01 change a file outside", "echo x >> $OUTSIDE/secret && echo escaped"),
    ("TC01 cut a file outside", "perl -e 'truncate($ENV{OUTSIDE}.\"/secret\", 0) && print \"escaped\"'"),
    ("TC01 remove a file outside", "rm $OUTSIDE/secret && echo escaped"),
    ("TC02 write through a link to a file", "ln -s $OUTSIDE/secret link; echo x >> link && echo escaped"),
    ("TC03 create through a link to a directory", "ln -s $OUTSIDE dir; echo x > dir/x && echo escaped"),
    ("TC05 link a file from outside", "ln $OUTSIDE/secret hard && echo escaped"),
    ("TC06 replace the workspace", "cd ..; mv workspace away && ln -s outside workspace && echo escaped"),
    ("TC11 read outside", "cat $OUTSIDE/secret && echo escaped"),
    ("TC11 list outside", "ls $OUTSIDE/ && echo escaped"),
    ("TC12 read the home directory", "ls ~root/ && echo escaped"),
    ("TC12 read password hashes", "cat /etc/shadow && echo escaped"),
    ("TC13 read another process's environment", "cat /proc/$PPID/environ /proc/1/environ | grep -a . && echo escaped"),
    ("TC14 TCP", "(exec 3<>/dev/tcp/127.0.0.1/$PORT) && echo escaped"),
    ("TC14 UDP", "(exec 3<>/dev/udp/127.0.0.1/53; echo x >&3) && echo escaped"),
    (
        "TC14 a socket of any other family",
        "perl -MSocket -e 'for (2, 10, 16, 17, 40) { socket(S, $_, 2, 0) && send(S, \"x\", 0) && print \"escaped\" }'",
    ),
    (
        "TC16 a Unix socket by its path",
        "perl -MSocket -e 'socket(S, 1, 1, 0); connect(S, pack_sockaddr_un($ENV{SOCKET})) && print \"escaped\"'",
    ),
    (
        "TC17 an abstract Unix socket",
        "perl -MSocket -e 'socket(S, 1, 1, 0); connect(S, pack_sockaddr_un(\"\\0\" . $ENV{ABSTRACT})) && print \"escaped\"'",
    ),
    ("TC21 kill the daemon", "kill -0 $DAEMON && echo escaped"),
    ("TC21 kill the supervisor", "kill -0 $PPID 2> /dev/null && [ $PPID -gt 2 ] && echo escaped"),
    ("TC22 trace another process", "perl -e 'syscall(101, 16, $ENV{DAEMON}, 0, 0) == 0 && print \"escaped\"'"),
    (
        "TC23 another root",
        "cat /proc/1/root$OUTSIDE/secret /proc/self/root$OUTSIDE/secret | grep secret && echo escaped",
    ),
    ("TC24 open descriptors", "[ $(ls /proc/self/fd | wc -l) -gt 4 ] && echo escaped"),
    ("TC27 a user namespace", "unshare -Ur true && echo escaped"),
    ("TC27 a mount", "mount -t tmpfs none . && echo escaped"),
    ("TC27 kernel settings", "echo 1 > /proc/sys/kernel/sysrq && echo escaped"),
    ("TC28 io_uring", "perl -e 'syscall(425, 1, 0) >= 0 && print \"escaped\"; $! == 1 || print \"escaped: $!\"'"),
    ("TC28 calls of the x32 variant", "perl -e 'syscall(0x40000000 + 41, 2, 1, 0) >= 0 && print \"escaped\"'"),
    (
        "TC29 run through the loader",
        "cp /bin/cat mine; /lib64/ld-linux-x86-64.so.2 ./mine $OUTSIDE/secret && echo escaped",
    ),
    ("TC31 a file of terabytes", "truncate -s 1T big && echo escaped"),
    ("TC35 the kernel's log", "timeout 2 head -c 1 /dev/kmsg && echo escaped"),
    ("TC37 a job of cron", "echo x > /var/spool/cron/x && echo escaped"),
    ("TC39 another shell with an empty environment", "env -i /bin/sh -c \"cat $OUTSIDE/secret\" && echo escaped"),
];

/// Attempts that only mounts can stop: inside a writable workspace Landlock knows no exceptions.
const STOPPED_BY_MOUNTS: &[(&str, &str)] = &[
    ("TC07 a hook", "echo x > .git/hooks/pre-commit && echo escaped"),
    ("TC07 a setting that runs programs", "echo x >> .git/config && echo escaped"),
    ("TC07 hooks in the place of the old ones", "mv .git away && mkdir -p .git/hooks && echo escaped"),
    ("TC07 a filter", "mkdir -p .git/info; echo x > .git/info/attributes && echo escaped"),
    ("TC08 a nested repository's hook", "echo x > nested/.git/hooks/post-checkout && echo escaped"),
    ("TC09 a repository elsewhere", "rm -rf .git; echo gitdir: /tmp > .git && echo escaped"),
    ("TC10 settings of other agents", "mkdir -p .claude && echo x > .claude/settings.json && echo escaped"),
    ("TC10 servers of other agents", "echo x > .mcp.json && echo escaped"),
    ("TC10 tasks of an editor", "mkdir -p .vscode && echo x > .vscode/tasks.json && echo escaped"),
    ("TC19 the mode of a file outside", "chmod 600 $OUTSIDE/secret && echo escaped"),
    ("TC21 see other processes", "[ -e /proc/$DAEMON ] && echo escaped"),
];

/// What a tool must still be able to do.
const ALLOWED: &[&str] = &[
    "echo text > file && cat file | grep -q text && echo fine",
    "mkdir -p a/b && mv a c && rm -r c && echo fine",
    "echo x > $TMPDIR/x && echo fine",
    "chmod +x . && echo fine",
    "perl -e 'print \"fine\"'",
    "(sleep 0.01 & wait) && echo fine",
    "ls /usr/bin > /dev/null && head -c 1 /dev/urandom > /dev/null && echo fine",
    "git -C . log 2> /dev/null; cd nested && echo change > f && echo fine",
];

fn prepared() -> Scratch {
    let scratch = Scratch::new();
    for repository in ["", "nested/"] {
        std::fs::create_dir_all(scratch.workspace().join(repository).join(".git/hooks")).unwrap();
        std::fs::write(scratch.workspace().join(repository).join(".git/config"), "[core]\n").unwrap();
    }
    scratch
}

/// The scratch's script with everything it might try to reach.
async fn attempt(scratch: &Scratch, policy: AccessPolicy, level: Level, attempt: &str) -> String {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let path = scratch.workspace().join("socket");
    let _ = std::fs::remove_file(&path);
    let unix = UnixListener::bind(&path).unwrap();
    let name = format!("everturn-{}", std::process::id());
    let hidden = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let variables = format!(
        "PORT={} SOCKET={} ABSTRACT={name} DAEMON={} TMPDIR={}",
        tcp.local_addr().unwrap().port(),
        path.display(),
        std::process::id(),
        policy.temporary.clone().unwrap_or_default().display(),
    );
    let text = format!("export {variables}; {{ {attempt}; }} 2> /dev/null; echo done");
    let output = confined(scratch, policy, level, &text).await;
    drop((tcp, unix, hidden));
    assert!(output.contains("done"), "{level}: `{attempt}` did not run: {output}");
    output
}

fn is_untouched(scratch: &Scratch) -> bool {
    let outside: Vec<_> =
        std::fs::read_dir(scratch.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let text = std::fs::read_to_string(scratch.outside().join("secret")).unwrap();
    outside == ["secret"] && text == "the secret" && !Path::new("/etc/everturn-x").exists()
}

#[tokio::test]
async fn escapes_are_stopped_at_each_level() {
    let mut escapes = Vec::new();
    for level in levels().await {
        for (name, text) in STOPPED {
            let scratch = prepared();
            let output = attempt(&scratch, scratch.writing(), level, text).await;
            if output.contains("escaped") || !is_untouched(&scratch) {
                escapes.push(format!("{level}: {name}: {output}"));
            }
        }
    }
    assert!(escapes.is_empty(), "{}", escapes.join("\n"));
}

#[tokio::test]
async fn mounts_protect_what_other_programs_run() {
    if !levels().await.contains(&Level::Full) {
        return;
    }
    let mut escapes = Vec::new();
    for (name, text) in STOPPED_BY_MOUNTS {
        let scratch = prepared();
        let mode = || scratch.outside().join("secret").metadata().unwrap().permissions().mode();
        let before = mode();
        let output = attempt(&scratch, scratch.writing(), Level::Full, text).await;
        if output.contains("escaped") || mode() != before {
            escapes.push(format!("{name}: {output}"));
        }
        for placeholder in [".claude", ".mcp.json", ".vscode", ".envrc", ".git/info/attributes"] {
            assert!(!scratch.workspace().join(placeholder).exists(), "{name}: {placeholder} is left");
        }
    }
    assert!(escapes.is_empty(), "{}", escapes.join("\n"));
}

#[tokio::test]
async fn ordinary_work_goes_on_at_each_level() {
    for level in levels().await {
        for text in ALLOWED {
            let scratch = prepared();
            let output = attempt(&scratch, scratch.writing(), level, text).await;
            assert!(output.contains("fine"), "{level}: `{text}` was stopped: {output}");
        }
    }
}

#[tokio::test]
async fn a_reader_changes_nothing() {
    let changes = [
        "touch new",
        "echo x > file",
        "rm file",
        "chmod 777 file",
        "mv file other",
        "ln -s file link",
        "mkdir dir",
        "touch -d yesterday file",
        "chown 1 file",
        "perl -e 'truncate(\"file\", 0) or exit 1'",
    ];
    for level in levels().await {
        for change in changes {
            let scratch = prepared();
            let file = scratch.workspace().join("file");
            std::fs::write(&file, "text").unwrap();
            let before = file.metadata().unwrap();
            let policy = AccessPolicy { access: Access::Read, ..scratch.writing() };
            let output = attempt(&scratch, policy, level, &format!("cat file; {change} && echo escaped")).await;
            assert!(output.starts_with("text") && !output.contains("escaped"), "{level}: `{change}`: {output}");
            let after = file.metadata().unwrap();
            assert_eq!(
                (after.modified().unwrap(), after.permissions()),
                (before.modified().unwrap(), before.permissions())
            );
        }
    }
}

#[tokio::test]
async fn a_command_that_cannot_be_confined_is_not_started() {
    let scratch = prepared();
    let command = crate::script(&scratch, "echo escaped");
    assert!(command.confine(scratch.writing(), Level::Files).is_err());
}

#[tokio::test]
async fn the_probe_finds_what_the_machine_has() {
    let alone =
        ["--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--unshare-net", "--proc", "/proc", "/bin/true"];
    let bubblewrap = std::process::Command::new("/usr/bin/bwrap").args(alone).output();
    let has_namespaces = bubblewrap.is_ok_and(|output| output.status.success());
    let probe = everturn_tools::Probe::run(Path::new(HELPER)).await;
    match (has_namespaces, probe.level) {
        (true, Level::Full) | (false, Level::Partial | Level::Files) => {}
        (true, Level::Partial | Level::Files) => {
            assert!(probe.reasons.iter().any(|reason| reason.contains("Landlock")), "{probe:?}");
        }
        (_, Level::Off) | (false, Level::Full) => panic!("{probe:?}"),
    }
}
