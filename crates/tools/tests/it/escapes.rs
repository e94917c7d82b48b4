//! The list of escapes: each attempt at each level, with what is expected of it.
//!
//! A script prints `escaped` if its attempt worked and `done` at its end, so that a script which could not run at all is
//! not taken for one that was stopped. What must not have changed is looked at from outside, too.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use everturn_tools::{Access, AccessPolicy, Level, Network, ToolCommand};
use tokio::io::AsyncReadExt as _;

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
    ("TC05 link a file into place", "ln -s /etc/hostname l; ln -L $OUTSIDE/secret hard2 && echo escaped"),
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
    (
        "TC15 the address of cloud metadata",
        "perl -MSocket -e 'socket(S, 2, 1, 0) && connect(S, pack_sockaddr_in(80, inet_aton(\"169.254.169.254\"))) \
         && print \"escaped\"; $! == 1 || print \"escaped: $!\"'",
    ),
    (
        "TC16 a socket of a service",
        "perl -MSocket -e 'socket(S, 1, 1, 0); connect(S, pack_sockaddr_un($ENV{SERVICE})) && print \"escaped\"'",
    ),
    ("TC16 the directory of services", "ls -A /run | grep -v everturn && echo escaped"),
    ("TC18 shared memory in files", "echo x > /dev/shm/everturn-x && [ -e /dev/shm/everturn-x ] && echo escaped"),
    ("TC21 kill the daemon", "kill -0 $DAEMON && echo escaped"),
    ("TC21 kill the supervisor", "kill -0 $PPID 2> /dev/null && [ $PPID -gt 2 ] && echo escaped"),
    ("TC22 trace another process", "perl -e 'syscall(101, 16, $ENV{DAEMON} + 0, 0, 0) == 0 && print \"escaped\"'"),
    (
        "TC22 read the memory of another process",
        "perl -e '$b = \"x\" x 16; $v = pack(\"PQ\", $b, 16); \
         syscall(310, $ENV{DAEMON} + 0, $v, 1, $v, 1, 0) >= 0 && print \"escaped\"; $! == 1 || print \"escaped: $!\"'",
    ),
    ("TC23 descriptors of another process", "readlink /proc/$DAEMON/fd/* && echo escaped"),
    (
        "TC23 another root",
        "cat /proc/1/root$OUTSIDE/secret /proc/self/root$OUTSIDE/secret | grep secret && echo escaped",
    ),
    ("TC24 open descriptors", "[ $(ls /proc/self/fd | wc -l) -gt 4 ] && echo escaped"),
    ("TC25 type into a terminal", "perl -e '$x = \"x\"; ioctl(STDIN, 0x5412, $x); $! == 1 || print \"escaped: $!\"'"),
    ("TC26 new privileges", "grep -q 'NoNewPrivs:.1' /proc/self/status || echo escaped"),
    ("TC26 old privileges", "grep -q 'CapPrm:.0000000000000000' /proc/self/status || echo escaped"),
    ("TC26 a device file", "mknod disk b 7 0 && echo escaped"),
    ("TC27 a user namespace", "unshare -Ur true && echo escaped"),
    ("TC27 a mount", "mount -t tmpfs none . && echo escaped"),
    ("TC27 kernel settings", "echo 1 > /proc/sys/kernel/sysrq && echo escaped"),
    ("TC28 io_uring", "perl -e 'syscall(425, 1, 0) >= 0 && print \"escaped\"; $! == 1 || print \"escaped: $!\"'"),
    ("TC28 calls of the x32 variant", "perl -e 'syscall(0x40000000 + 41, 2, 1, 0) >= 0 && print \"escaped\"'"),
    (
        "TC29 run through the loader",
        "cp /bin/cat mine; /lib64/ld-linux-x86-64.so.2 ./mine $OUTSIDE/secret && echo escaped",
    ),
    (
        "TC29 run from memory",
        "perl -e '$n = \"x\"; $f = syscall(319, $n, 0); open(I, \"/bin/cat\"); open(O, \">&=$f\"); local $/; print O <I>; \
         open(R, \"/proc/self/fd/$f\"); close O; $r = fileno R; exec(\"/proc/self/fd/$r\", \"$ENV{OUTSIDE}/secret\")' \
         | grep secret && echo escaped",
    ),
    ("TC29 a script without the right to run", "echo \"cat $OUTSIDE/secret\" > s; sh ./s && echo escaped"),
    ("TC31 a file of terabytes", "truncate -s 1T big && echo escaped"),
    ("TC32 outlive the daemon when memory runs out", "[ $(cat /proc/self/oom_score_adj) = 1000 ] || echo escaped"),
    ("TC35 the kernel's messages", "timeout 2 head -c 1 /proc/kmsg && echo escaped"),
    ("TC35 the kernel's log", "timeout 2 head -c 1 /dev/kmsg && echo escaped"),
    ("TC37 a job of cron", "echo x > /var/spool/cron/x && echo escaped"),
    (
        "TC37 a service of systemd",
        "systemd-run --wait true && echo escaped; systemd-run --user --wait true && echo escaped",
    ),
    ("TC37 a program that starts with the desktop", "mkdir -p ~root/.config/autostart && echo escaped"),
    ("TC39 another shell with an empty environment", "env -i /bin/sh -c \"cat $OUTSIDE/secret\" && echo escaped"),
];

/// Attempts that only namespaces can stop: inside a writable workspace Landlock knows no exceptions, and shared memory and
/// the attributes of files not at all. Without namespaces each command waits for approval.
const STOPPED_BY_NAMESPACES: &[(&str, &str)] = &[
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
    ("TC08 settings of a submodule", "echo x >> .git/modules/sub/config && echo escaped"),
    ("TC08 a hook of a submodule", "echo x > .git/modules/sub/hooks/post-checkout && echo escaped"),
    ("TC13 command lines of other processes", "cat /proc/$DAEMON/cmdline && echo escaped"),
    ("TC23 numbers of another process's descriptors", "ls /proc/$DAEMON/fd/ && echo escaped"),
    ("TC18 shared memory of other programs", "ipcs -m -i $MEMORY | grep -q bytes && echo escaped"),
    ("TC19 the times of a file outside", "touch -d yesterday $OUTSIDE/secret && echo escaped"),
    (
        "TC19 an attribute of a file outside",
        "perl -e '$p = \"$ENV{OUTSIDE}/secret\"; $n = \"user.x\"; $v = \"y\"; syscall(188, $p, $n, $v, 1, 0) == 0 && print \"escaped\"'",
    ),
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
    for repository in [".git", "nested/.git", ".git/modules/sub"] {
        std::fs::create_dir_all(scratch.workspace().join(repository).join("hooks")).unwrap();
        std::fs::write(scratch.workspace().join(repository).join("config"), "[core]\n").unwrap();
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
    let memory = SharedMemory::make();
    // Beside what is outside, which has to stay as it is.
    let service = scratch.root.path().join("service");
    let _ = std::fs::remove_file(&service);
    let _service = UnixListener::bind(&service).unwrap();
    let variables = format!(
        "PORT={} SOCKET={} ABSTRACT={name} SERVICE={} MEMORY={} DAEMON={} TMPDIR={}",
        tcp.local_addr().unwrap().port(),
        path.display(),
        service.display(),
        memory.id,
        std::process::id(),
        policy.temporary.clone().unwrap_or_default().display(),
    );
    let text = format!("export {variables}; {{ {attempt}; }} 2> /dev/null; echo done");
    let output = confined(scratch, policy, level, &text).await;
    drop((tcp, unix, hidden));
    assert!(output.contains("done"), "{level}: `{attempt}` did not run: {output}");
    output
}

/// A segment of shared memory that belongs to this process.
struct SharedMemory {
    id: String,
}

impl SharedMemory {
    fn make() -> Self {
        let made = std::process::Command::new("ipcmk").args(["--shmem", "64"]).output().unwrap();
        let text = String::from_utf8(made.stdout).unwrap();
        Self { id: text.trim().rsplit(' ').next().unwrap().to_owned() }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ipcrm").args(["--shmem-id", &self.id]).status();
    }
}

fn is_untouched(scratch: &Scratch) -> bool {
    let outside: Vec<_> =
        std::fs::read_dir(scratch.outside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let text = std::fs::read_to_string(scratch.outside().join("secret")).unwrap();
    outside == ["secret"] && text == "the secret" && !Path::new("/etc/everturn-x").exists()
}

/// TC01–TC03, TC05, TC06, TC11–TC17, TC21–TC29, TC31, TC32, TC35, TC37, TC39: what every level stops.
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

/// TC07–TC10, TC13, TC18, TC19, TC21, TC23: what namespaces stop. At a lower level the attempts are made, too, and what works is
/// told.
#[tokio::test]
async fn namespaces_protect_what_other_programs_run() {
    let mut escapes = Vec::new();
    for level in levels().await {
        for (name, text) in STOPPED_BY_NAMESPACES {
            let scratch = prepared();
            let known = || {
                let found = scratch.outside().join("secret").metadata().unwrap();
                (found.permissions().mode(), found.modified().unwrap())
            };
            let before = known();
            let output = attempt(&scratch, scratch.writing(), level, text).await;
            let has_escaped = output.contains("escaped") || known() != before;
            match level {
                Level::Full if has_escaped => escapes.push(format!("{name}: {output}")),
                Level::Full => {}
                Level::Partial | Level::Files | Level::Off if has_escaped => {
                    eprintln!("not covered at {level}: {name}")
                }
                Level::Partial | Level::Files | Level::Off => {}
            }
            for placeholder in [".claude", ".mcp.json", ".vscode", ".envrc", ".git/info/attributes"] {
                let is_left = level == Level::Full && scratch.workspace().join(placeholder).exists();
                assert!(!is_left, "{name}: {placeholder} is left");
            }
        }
    }
    assert!(escapes.is_empty(), "{}", escapes.join("\n"));
}

/// TC05: a hard link to a file outside, made before, can be written by a command at every level. That it is so is said in
/// docs/tools.md; this test fails when it is no longer.
#[tokio::test]
async fn a_hard_link_made_before_is_not_covered() {
    for level in levels().await {
        let scratch = prepared();
        std::fs::hard_link(scratch.outside().join("secret"), scratch.workspace().join("hard")).unwrap();
        let output = attempt(&scratch, scratch.writing(), level, "echo x >> hard && echo escaped").await;
        assert!(output.contains("escaped") && !is_untouched(&scratch), "{level}: {output}");
    }
}

/// TC40: where namespaces cannot be had, the probe says so and names a lower level.
#[tokio::test]
async fn a_machine_without_namespaces_is_named_as_such() {
    if !levels().await.contains(&Level::Partial) {
        return;
    }
    let scratch = Scratch::new();
    let program = std::env::current_exe().unwrap();
    let mut policy = AccessPolicy { network: Network::On, ..scratch.writing() };
    policy.also_read = [program.as_path(), Path::new(HELPER)].map(|path| path.parent().unwrap().to_owned()).to_vec();
    // A program that is called like it and comes first on the path is not asked.
    std::fs::write(scratch.workspace().join("bwrap"), "#!/bin/sh\nexit 0\n").unwrap();
    let argv = [&program.display().to_string(), "--ignored", "--exact", "--nocapture", "escapes::part_probe"];
    let command = ToolCommand::new(argv, scratch.workspace()).with_helper(HELPER);
    let command = command.variable("TMPDIR", policy.temporary.clone().unwrap().display().to_string());
    let command = command.variable("PATH", format!("{}:/usr/bin:/bin", scratch.workspace().display()));
    let (_, output) = crate::run(command.confine(policy, Level::Partial).unwrap()).await;
    assert!(output.contains("level partial") && output.contains("because full: "), "{output}");
}

/// Plays the machine of `a_machine_without_namespaces_is_named_as_such`: inside a confinement there are none.
#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn part_probe() {
    let probe = everturn_tools::Probe::run(Path::new(HELPER)).await;
    println!("level {} because {}", probe.level, probe.reasons.join("; "));
}

/// TC10: what is mounted over a name that was free stays there when another command in the workspace ends.
#[tokio::test]
async fn protection_lasts_while_other_commands_end() {
    if !levels().await.contains(&Level::Full) {
        return;
    }
    let scratch = prepared();
    let text = "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo x > .mcp.json && echo escaped; \
                mkdir -p .claude && echo x > .claude/settings.json && echo escaped; echo done";
    let command = crate::script(&scratch, text).confine(scratch.writing(), Level::Full).unwrap();
    let mut first = command.start().await.unwrap();
    let mut ready = [0; 6];
    first.stdout.read_exact(&mut ready).await.unwrap();
    assert!(attempt(&scratch, scratch.writing(), Level::Full, "true").await.contains("done"));
    std::fs::write(scratch.workspace().join("go"), "").unwrap();
    let mut output = String::new();
    first.stdout.read_to_string(&mut output).await.unwrap();
    first.wait().await.unwrap();
    assert!(output.ends_with("done\n") && !output.contains("escaped"), "{output}");
    for placeholder in [".claude", ".mcp.json"] {
        assert!(!scratch.workspace().join(placeholder).exists(), "{placeholder} is left");
    }
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

/// TC40: the level is what the machine has, found by trying.
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
