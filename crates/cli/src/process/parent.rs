//! The process that started this one.

/// Ends this process when its standard input closes: the parent holds the other end, so this notices however it ends.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()); // Its end is all that matters.
        std::process::exit(0);
    });
}
