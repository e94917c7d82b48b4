//! stub
use crate::cost::Micros;
/// stub
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Limits {
    pub queue_len_max: usize,
    pub steps_max: u32,
    pub same_call_max: u32,
    pub turn_time_max: std::time::Duration,
    pub turn_tokens_max: u64,
    pub turn_cost_max: Micros,
}
