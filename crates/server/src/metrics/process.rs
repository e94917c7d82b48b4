//! Metrics of the process: memory, CPU time, open files.
//!
//! Names and meanings are those of every Prometheus client library, so that existing dashboards work. They are read at
//! each scrape from a few small files of Linux's `/proc`; other systems have none of them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Unit of process times in `/proc`: hundredths of a second, whatever the kernel uses itself.
const TICKS_A_SECOND: f64 = 100.0;

/// This process.
#[derive(Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut tell = |name: &str, help, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).ok();
        if let Some(bytes) = read("status").and_then(|status| resident(&status)) {
            tell("process_resident_memory_bytes", "Memory that the process has in use.", &ConstGauge::new(bytes))?;
        }
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            let len = open.count().saturating_sub(1) as u64; // One is the descriptor that this listing uses.
            tell("process_open_fds", "Files and connections that the process has open.", &ConstGauge::new(len))?;
        }
        if let Some(seconds) = read("stat").and_then(|stat| computed(&stat)) {
            tell("process_cpu_seconds", "Time that the process has computed.", &ConstCounter::new(seconds))?;
        }
        Ok(())
    }
}

/// The memory in use, from `status`, which has it in units of 1024 bytes.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The CPU seconds, user and system, from `stat`. The second field is the program's name in brackets, which may contain
/// anything.
fn computed(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let (ours, systems) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some((ours + systems) as f64 / TICKS_A_SECOND)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t   12345 kB\nThreads:\t1\n"), Some(12_641_280));
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 9 9 20 0 8 0 100 1000 300 18446744073709551615";
        assert_eq!(computed(stat), Some(3.0));
        for nothing in ["", "VmRSS: many kB", "7 (a) S 1"] {
            assert_eq!((resident(nothing), computed(nothing)), (None, None));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_told_of() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process));
        let mut text = String::new();
        encode(&mut text, &registry).expect("numbers can be written");
        let number = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.trim().parse().expect(name)
        };
        assert!(number("process_resident_memory_bytes ") > 1e5, "{text}");
        assert!(number("process_open_fds ") >= 3.0, "{text}");
        assert!(number("process_cpu_seconds_total ") >= 0.0, "{text}");
    }
}
