//! The helper processes of [`everturn_tools`] as a program of its own, for programs whose `main` cannot call `init`.

fn main() {
    everturn_tools::init();
    eprintln!("everturn-tool-helper is started by programs that run tools; it does nothing by itself");
    std::process::exit(2);
}
