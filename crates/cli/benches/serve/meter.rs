//! How figures are read and printed.

/// Where figures go.
pub struct Out {
    pub json: bool,
}

impl Out {
    /// One figure beside its floor. `goal` is what the ratio should not go beyond.
    pub fn line(&self, metric: &str, n: usize, value: f64, unit: &str, floor: f64, goal: Option<f64>) {
        let ratio = value / floor;
        if self.json {
            println!(
                "{{\"bench\":\"serve\",\"metric\":\"{metric}\",\"n\":{n},\"value\":{value:.3},\"unit\":\"{unit}\",\
                 \"floor\":{floor:.3},\"ratio\":{ratio:.3}}}"
            );
            return;
        }
        let goal = match goal {
            Some(goal) if ratio <= goal => format!("  (goal {goal}: kept)"),
            Some(goal) => format!("  (goal {goal}: missed)"),
            None => String::new(),
        };
        println!("{metric:<50} {value:>10.2} {unit:<4} floor {floor:>10.2}  ratio {ratio:.2}{goal}");
    }
}

/// The one in the middle.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The value below which `part` percent lie, in milliseconds, of microseconds.
pub fn percentile(delays: &mut [u32], part: f64) -> f64 {
    delays.sort_unstable();
    let place = (delays.len() as f64 * part / 100.0) as usize;
    delays.get(place.min(delays.len().saturating_sub(1))).map_or(0.0, |delay| f64::from(*delay) / 1e3)
}

/// What all cores did so far, in hundredths of a second: all of it, and the idle part.
#[derive(Clone, Copy)]
pub struct Machine {
    all: u64,
    idle: u64,
}

/// What the machine did so far.
pub fn machine() -> Machine {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let fields: Vec<u64> =
        stat.lines().next().unwrap().split_whitespace().filter_map(|field| field.parse().ok()).collect();
    Machine { all: fields.iter().take(8).sum(), idle: fields[3] + fields[4] }
}

impl std::ops::Sub for Machine {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { all: self.all - before.all, idle: self.idle - before.idle }
    }
}

impl Machine {
    /// The part of it that was not idle.
    pub fn busy(self) -> f64 {
        1.0 - self.idle as f64 / self.all.max(1) as f64
    }
}
