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
        println!("{metric:<46} {value:>10.2} {unit:<4} floor {floor:>10.2}  ratio {ratio:.2}{goal}");
    }
}

/// The value below which `part` percent lie, in milliseconds, of microseconds.
pub fn percentile(delays: &mut [u32], part: f64) -> f64 {
    delays.sort_unstable();
    let place = (delays.len() as f64 * part / 100.0) as usize;
    delays.get(place.min(delays.len().saturating_sub(1))).map_or(0.0, |delay| f64::from(*delay) / 1e3)
}
