//! Builds the page from `web/` with npm, compresses its files and writes the list that `src/lib.rs` includes.
//!
//! Runs only when a file of the page has changed. Writes to `web/node_modules` and `web/dist`, which git ignores, and to its
//! own directory. `BUILD_PAGE` decides what happens: `auto` (the default) builds the page if npm works, `off` leaves it out,
//! and `require` fails without it, for releases.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, io};

/// What npm may do: only what the lock file says, without scripts of packages and without waiting for a network.
const INSTALL: [&str; 6] =
    ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=60000"];
/// Directories of `web/` that do not decide what the page is.
const ASIDE: [&str; 3] = ["node_modules", "dist", "test"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=BUILD_PAGE");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=compress.mjs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let web = here.join("../../web");
    let wanted = env::var("BUILD_PAGE").unwrap_or_default();
    let list = match wanted.as_str() {
        "off" => String::new(),
        "require" => built(&web, &here, &out)?,
        "" | "auto" => built(&web, &here, &out).unwrap_or_else(|error| {
            println!("cargo::warning=the web page is left out: {error}; `BUILD_PAGE=require cargo build` shows more");
            String::new()
        }),
        other => return Err(format!("BUILD_PAGE is `{other}`: set it to auto, off or require").into()),
    };
    fs::write(out.join("files.rs"), files(&list, &out)?)?;
    Ok(())
}

/// Builds and compresses the page; returns the lines that `compress.mjs` printed.
fn built(web: &Path, here: &Path, out: &Path) -> Result<String, Box<dyn Error>> {
    let lock_file = web.join("package-lock.json");
    if !lock_file.exists() {
        return Err(format!("there is no {}", lock_file.display()).into());
    }
    watch(web)?;
    // Held until the files are read: another build in the same tree, such as one for a release, must not remove them.
    let lock = File::open(web.join("package.json"))?;
    lock.lock()?;
    let stamp = web.join("node_modules/.everturn-installed");
    let mut hasher = DefaultHasher::new();
    fs::read(&lock_file)?.hash(&mut hasher);
    let installed = format!("{:016x}", hasher.finish());
    if fs::read_to_string(&stamp).ok().as_deref() != Some(&installed) {
        run(Command::new("npm").args(INSTALL).current_dir(web))?;
        fs::write(&stamp, &installed)?;
    }
    run(Command::new("npm").args(["run", "--silent", "build"]).current_dir(web))?;
    run(Command::new("node").arg(here.join("compress.mjs")).arg(web.join("dist")).arg(out))
}

/// Runs a program to its end and returns its output.
fn run(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let words = format!("{command:?}").replace('"', "");
    let output = command.output().map_err(|error| format!("{words}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    let last = told.lines().rev().take(12).map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let told = last.into_iter().rev().collect::<Vec<_>>().join(" | ");
    Err(format!("{words} failed with {}: {told}", output.status).into())
}

/// Tells cargo which files the page is made of. Cargo looks into directories by itself, so none with a directory aside is
/// named.
fn watch(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if ASIDE.iter().any(|aside| name == *aside) {
            continue;
        }
        if entry.file_type()?.is_dir() && has_aside(&path)? {
            watch(&path)?;
        } else {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    Ok(())
}

fn has_aside(directory: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_aside = ASIDE.iter().any(|aside| entry.file_name() == *aside);
        if is_aside || (entry.file_type()?.is_dir() && has_aside(&entry.path())?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The files as a Rust expression.
fn files(list: &str, out: &Path) -> Result<String, Box<dyn Error>> {
    let mut code = String::from("&[\n");
    for line in list.lines() {
        let [path, name, hash] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("a line of compress.mjs has other fields: {line}").into());
        };
        let bytes = |form: &str| format!("include_bytes!({:?})", out.join(format!("{name}.{form}")));
        let (plain, gzip, brotli) = (bytes("plain"), bytes("gz"), bytes("br"));
        writeln!(
            code,
            "    PageFile {{ path: {path:?}, is_hashed: {}, hash: {hash:?}, plain: {plain}, gzip: {gzip}, brotli: {brotli} }},",
            is_hashed(path)
        )?;
    }
    code.push_str("]\n");
    Ok(code)
}

/// Whether a name contains a hash of the content, as in `page-4XKQ2JZP.js`.
fn is_hashed(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_hash = |word: &str| {
        word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
            || word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
    };
    let Some((stem, _)) = name.rsplit_once('.') else { return false };
    stem.rsplit(['-', '.']).next().is_some_and(|last| last.len() < stem.len() && is_hash(last))
}
