//! The process that started this one.

/// Ends this process when its standard input closes: the parent holds the other end, so this notices however
/// it ends.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        // Only the end of the input matters.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(0);
    });
}

/// Ends this process as a power cut would. The parent starts another one.
pub fn kill() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}
