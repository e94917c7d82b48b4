//! How long a provider asks us to stay away.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::TimeZone;

use crate::ids::Timestamp;

/// The longest wait that is taken at its word. Absurd ones become this, which is still too long for anyone to wait
/// for, and safe to add to a date.
pub const RETRY_AFTER_PLAUSIBLE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The wait out of the headers `retry-after-ms`, which wins because it is finer, and `retry-after`, in seconds or as a
/// date. What is not a wait (zero, the past, no number) counts as not said.
#[must_use]
pub fn retry_after(retry_after_ms: Option<&str>, retry_after: Option<&str>, now: Timestamp) -> Option<Duration> {
    let millis = retry_after_ms.and_then(|text| positive(text, 1e-3));
    millis.or_else(|| retry_after.and_then(|text| positive(text, 1.0).or_else(|| until(text, now))))
}

fn positive(text: &str, scale: f64) -> Option<Duration> {
    let seconds = text.trim().parse::<f64>().ok()? * scale;
    if !seconds.is_finite() || seconds <= 0.0 {
        return None;
    }
    Some(Duration::from_secs_f64(seconds.min(RETRY_AFTER_PLAUSIBLE_MAX.as_secs_f64())))
}

fn until(text: &str, now: Timestamp) -> Option<Duration> {
    let wait = Timestamp(date(text.trim())?.as_millisecond()).since(now);
    (!wait.is_zero()).then_some(wait.min(RETRY_AFTER_PLAUSIBLE_MAX))
}

/// A date in one of the three forms that HTTP knows, two of them long obsolete.
fn date(text: &str) -> Option<jiff::Timestamp> {
    const OBSOLETE: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    if let Ok(instant) = rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text) {
        return Some(instant);
    }
    let mut civil =
        OBSOLETE.iter().filter_map(|form| -> Option<DateTime> { strtime::parse(form, text).ok()?.to_datetime().ok() });
    TimeZone::UTC.to_timestamp(civil.next()?).ok()
}
