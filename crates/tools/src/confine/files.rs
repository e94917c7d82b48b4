//! Which files a process may reach: a Landlock domain.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use super::ConfineError;
use crate::wire::{Access, AccessPolicy, Network};

/// What programs need in order to run: themselves, their libraries and the system's settings.
pub(super) const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/nix/store"];
/// Device files that hold nothing.
pub(super) const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Below the system's directories, what is not for tools.
pub(super) const SECRETS: [&str; 3] = ["/etc/shadow", "/etc/gshadow", "/etc/ssl/private"];

/// The oldest version that stops `truncate(2)` outside the workspace.
const REQUIRED: ABI = ABI::V3;

/// Enters the domain of the policy. Refuses to go on with less than files need; what newer kernels add (TCP, devices,
/// signals, abstract sockets) is used where it is there, and seccomp covers the network in any case.
pub fn restrict(policy: &AccessPolicy) -> Result<(), ConfineError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::IoctlDev)?
        .scope(Scope::from_all(ABI::V6))?;
    if policy.network == Network::Off {
        ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    let mut created = ruleset.create()?;
    for (path, access) in rules(policy) {
        // A path that is not there gives no right, which is as strict as can be.
        let Ok(parent) = PathFd::new(&path) else { continue };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(ABI::V5) };
        created = created.add_rule(PathBeneath::new(parent, access))?;
    }
    match created.restrict_self()?.ruleset {
        RulesetStatus::NotEnforced => Err(ConfineError::NotEnforced),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

fn rules(policy: &AccessPolicy) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let read = AccessFs::from_read(ABI::V5);
    // A device file made in the workspace would reach the disk past all rules.
    let all = AccessFs::from_all(ABI::V5) & !(AccessFs::IoctlDev | AccessFs::MakeChar | AccessFs::MakeBlock);
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    let system = SYSTEM.into_iter().filter(|path| *path != "/etc").map(PathBuf::from);
    let mut rules: Vec<_> = system.chain(settings()).map(|path| (path, read)).collect();
    rules.extend(DEVICES.map(|path| (PathBuf::from(path), device)));
    rules.push(("/proc".into(), read)); // Landlock itself keeps other processes' memory, environment and files away.
    rules.extend(policy.also_read.iter().map(|path| (path.clone(), read)));
    rules.extend(policy.temporary.iter().map(|path| (path.clone(), all)));
    let workspace = match policy.access {
        Access::Read => read,
        Access::Write => all,
    };
    rules.push((policy.workspace.clone(), workspace));
    rules
}

/// `/etc` without its secrets. A domain has no exceptions, so the entries are listed one by one.
fn settings() -> impl Iterator<Item = PathBuf> {
    let entries = |dir: &str| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_secret = |path: &Path| SECRETS.iter().any(|secret| path == Path::new(secret));
    let with_secrets = |path: &Path| SECRETS.iter().any(|secret| Path::new(secret).parent() == Some(path));
    let top = entries("/etc").filter(move |path| !is_secret(path) && !with_secrets(path));
    top.chain(entries("/etc/ssl").filter(move |path| !is_secret(path)))
}
