//! Clocks, counters, and how figures are printed.

use std::time::Duration;

/// Where figures go, and which are wanted.
pub struct Out {
    json: bool,
    wanted: Vec<String>,
}

impl Out {
    pub fn from_args() -> Self {
        let (options, wanted): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
        Self { json: options.iter().any(|option| option == "--json"), wanted }
    }

    /// Whether a store or a figure was asked for. Without a word of its kind, all are.
    pub fn wants(&self, word: &str) -> bool {
        let kinds: [&[&str]; 2] = [&["sqlite", "postgres"], &["fast", "flood", "paced", "answer", "commit"]];
        let kind = kinds.into_iter().find(|kind| kind.contains(&word)).unwrap_or_default();
        let asked = self.wanted.iter().filter(|wanted| kind.contains(&wanted.as_str()));
        asked.clone().count() == 0 || asked.clone().any(|wanted| wanted == word)
    }

    pub fn line(&self, bench: &str, metric: &str, n: usize, value: f64, unit: &str, floor: f64) {
        let ratio = value / floor;
        if self.json {
            println!(
                "{{\"bench\":\"{bench}\",\"metric\":\"{metric}\",\"n\":{n},\"value\":{value:.3},\"unit\":\"{unit}\",\
                 \"floor\":{floor:.3},\"ratio\":{ratio:.3}}}"
            );
        } else {
            println!("{bench:<10} {metric:<26} n={n:<8} {value:>12.2} {unit:<4} floor {floor:>12.2}  ratio {ratio:.2}");
        }
    }
}

/// The one in the middle.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The value below which `part` percent lie, in milliseconds.
pub fn percentile(delays: &mut [Duration], part: f64) -> f64 {
    delays.sort_unstable();
    let place = (delays.len() as f64 * part / 100.0) as usize;
    delays.get(place.min(delays.len().saturating_sub(1))).map_or(0.0, |delay| delay.as_secs_f64() * 1e3)
}

/// CPU time of this process so far, all threads.
pub fn cpu() -> Duration {
    cpu_of("self")
}

/// CPU time of another process; nothing if it has ended.
pub fn cpu_of(pid: &str) -> Duration {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return Duration::ZERO };
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10) // Linux counts hundredths here.
}

/// Bytes this process has handed to write calls so far.
pub fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap()
}

/// What the cores of this machine have done since a moment, in hundredths of a second.
pub struct Machine {
    all: u64,
    stolen: u64,
}

impl Machine {
    pub fn now() -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let fields = stat.lines().next().unwrap().split_whitespace().skip(1);
        let ticks: Vec<u64> = fields.map(|field| field.parse().unwrap()).take(8).collect();
        Self { all: ticks.iter().sum(), stolen: ticks[7] }
    }

    /// How much of them other machines on the same hardware have had meanwhile, in percent.
    pub fn stolen(&self) -> f64 {
        let now = Self::now();
        (now.stolen - self.stolen) as f64 * 100.0 / (now.all - self.all) as f64
    }
}
