//! Which system calls a process may make: two seccomp filters.
//!
//! Landlock guards paths. It lets UDP, netlink and Unix sockets through, and file modes, times and attributes everywhere.
//! Calls are allowed unless they are listed here, because tools are ordinary programs: what is listed either goes around
//! the confinement (io_uring, new namespaces, ptrace), reaches the network, or changes what a reader must not change.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

use super::ConfineError;
use crate::wire::{Access, AccessPolicy, Network};

/// Set in the number of a system call of the x32 variant, which the filter would otherwise not recognise.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Installs the filters for this process and everything it will start.
pub fn restrict(policy: &AccessPolicy) -> Result<(), ConfineError> {
    for program in programs(policy).map_err(|error| ConfineError::Syscalls(error.to_string()))? {
        apply_filter(&program).map_err(|error| ConfineError::Syscalls(error.to_string()))?;
    }
    Ok(())
}

fn programs(policy: &AccessPolicy) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    // The flags of clone3 are in memory, where a filter cannot look. Without it the C library uses clone.
    let missing: BTreeMap<i64, Vec<SeccompRule>> = [(numbers::CLONE3, Vec::new())].into();
    Ok([compile(refused(policy)?, numbers::EPERM)?, compile(missing, numbers::ENOSYS)?])
}

/// The refused calls, each with the arguments for which it is refused; with none, always.
fn refused(policy: &AccessPolicy) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut refuse = |number: i64, rule: Vec<SeccompRule>| {
        #[cfg(target_arch = "x86_64")]
        rules.entry(number | X32).or_default().extend(rule.clone());
        rules.entry(number).or_default().extend(rule);
    };
    for number in numbers::ESCAPES {
        refuse(*number, Vec::new());
    }
    // A new user namespace would bring every privilege back.
    refuse(numbers::CLONE, vec![bits(0, numbers::CLONE_NEWUSER)?]);
    for request in numbers::TERMINAL_INPUT {
        refuse(numbers::IOCTL, vec![equals(1, *request)?]);
    }
    if policy.network == Network::Off {
        for number in numbers::NETWORK {
            refuse(*number, Vec::new());
        }
        refuse(numbers::SOCKET, vec![differs(0, numbers::AF_UNIX)?]);
        refuse(numbers::SOCKETPAIR, vec![differs(0, numbers::AF_UNIX)?]);
    }
    if policy.access == Access::Read {
        for number in numbers::METADATA {
            refuse(*number, Vec::new());
        }
    }
    Ok(rules)
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: u32) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch)?.try_into()
}

fn bits(argument: u8, mask: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    rule(argument, SeccompCmpOp::MaskedEq(mask), mask)
}

fn equals(argument: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    rule(argument, SeccompCmpOp::Eq, value)
}

fn differs(argument: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    rule(argument, SeccompCmpOp::Ne, value)
}

fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?])
}

/// Numbers of the kernel's interface, by the names of its manual.
mod numbers {
    use libc::*;

    pub const EPERM: u32 = libc::EPERM as u32;
    pub const ENOSYS: u32 = libc::ENOSYS as u32;
    pub const AF_UNIX: u64 = libc::AF_UNIX as u64;
    pub const CLONE_NEWUSER: u64 = libc::CLONE_NEWUSER as u64;
    pub const CLONE: i64 = SYS_clone;
    pub const CLONE3: i64 = SYS_clone3;
    pub const IOCTL: i64 = SYS_ioctl;
    pub const SOCKET: i64 = SYS_socket;
    pub const SOCKETPAIR: i64 = SYS_socketpair;
    /// `TIOCSTI` and `TIOCLINUX` type into a terminal.
    pub const TERMINAL_INPUT: &[u64] = &[TIOCSTI, TIOCLINUX];

    /// Ways around the other rules, and into other processes and the kernel.
    pub const ESCAPES: &[i64] = &[
        SYS_io_uring_setup,
        SYS_io_uring_enter,
        SYS_io_uring_register,
        SYS_ptrace,
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        SYS_pidfd_getfd,
        SYS_kcmp,
        SYS_mount,
        SYS_umount2,
        SYS_pivot_root,
        SYS_chroot,
        SYS_setns,
        SYS_unshare,
        SYS_open_tree,
        SYS_move_mount,
        SYS_fsopen,
        SYS_fsconfig,
        SYS_fsmount,
        SYS_fspick,
        SYS_mount_setattr,
        SYS_bpf,
        SYS_perf_event_open,
        SYS_userfaultfd,
        SYS_keyctl,
        SYS_add_key,
        SYS_request_key,
        SYS_kexec_load,
        SYS_kexec_file_load,
        SYS_init_module,
        SYS_finit_module,
        SYS_delete_module,
        SYS_open_by_handle_at,
        SYS_name_to_handle_at,
        SYS_acct,
        SYS_swapon,
        SYS_swapoff,
        SYS_reboot,
        SYS_quotactl,
        SYS_settimeofday,
        SYS_clock_settime,
        SYS_adjtimex,
        SYS_clock_adjtime,
        SYS_sethostname,
        SYS_setdomainname,
    ];
    /// Reaching another process or machine, over any family of sockets.
    pub const NETWORK: &[i64] = &[SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4, SYS_sendto, SYS_sendmmsg];
    /// Changing what is known of a file, which Landlock does not stop.
    pub const METADATA: &[i64] = &[
        #[cfg(target_arch = "x86_64")]
        SYS_chmod,
        SYS_fchmod,
        SYS_fchmodat,
        SYS_fchmodat2,
        #[cfg(target_arch = "x86_64")]
        SYS_chown,
        #[cfg(target_arch = "x86_64")]
        SYS_lchown,
        SYS_fchown,
        SYS_fchownat,
        #[cfg(target_arch = "x86_64")]
        SYS_utime,
        #[cfg(target_arch = "x86_64")]
        SYS_utimes,
        #[cfg(target_arch = "x86_64")]
        SYS_futimesat,
        SYS_utimensat,
        SYS_setxattr,
        SYS_lsetxattr,
        SYS_fsetxattr,
        SYS_removexattr,
        SYS_lremovexattr,
        SYS_fremovexattr,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_of_the_x32_variant_are_refused_too() {
        let rules = refused(&AccessPolicy::reading("/w")).expect("valid rules");
        let (x32, native): (Vec<i64>, Vec<i64>) = rules.keys().partition(|number| *number & X32 != 0);
        assert_eq!(x32, native.iter().map(|number| number | X32).collect::<Vec<_>>());
        assert!(native.contains(&numbers::SOCKET));
    }

    #[test]
    fn a_policy_refuses_no_more_than_it_says() {
        let count = |policy: &AccessPolicy| refused(policy).expect("valid rules").len();
        let reading = AccessPolicy::reading("/w");
        let writing = AccessPolicy::writing("/w");
        let online = AccessPolicy { network: Network::On, ..writing.clone() };
        assert!(count(&reading) > count(&writing) && count(&writing) > count(&online));
        assert!(!refused(&online).expect("valid rules").contains_key(&numbers::SOCKET));
    }
}
