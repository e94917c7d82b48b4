//! What all connections of a server share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::UnderstudyOptions;
use super::background::Generation;
use super::log::{AnswerLog, RequestLog};
use super::wire::EarlierResponse;
use crate::dice::SeededDice;
use crate::fault::{self, Fault, Happened, UnknownFault};
use crate::play::Understudy;

pub(super) struct ServerState {
    pub understudy: Understudy,
    pub options: UnderstudyOptions,
    /// Set when the server goes.
    pub stop: CancellationToken,
    log: Arc<Mutex<RequestLog>>,
    dice: Mutex<SeededDice>,
    /// How often each fault has happened to each model.
    happened: Mutex<Happened>,
    kept: Mutex<VecDeque<(String, StoredResponse)>>,
    numbers: AtomicU64,
    connections: AtomicUsize,
}

/// A response that can be asked for again.
#[derive(Clone)]
pub(super) enum StoredResponse {
    /// One that is over.
    Done(Arc<Value>),
    /// One that goes on by itself.
    Background(Arc<Generation>),
}

impl ServerState {
    pub(super) fn new(understudy: Understudy, options: UnderstudyOptions, stop: CancellationToken) -> Self {
        let dice = Mutex::new(SeededDice::new(options.seed));
        Self {
            understudy,
            options,
            stop,
            log: Arc::default(),
            dice,
            happened: Mutex::default(),
            kept: Mutex::default(),
            numbers: AtomicU64::new(1),
            connections: AtomicUsize::new(0),
        }
    }

    pub(super) fn log(&self) -> MutexGuard<'_, RequestLog> {
        lock(&self.log)
    }

    /// Writes down what is said in answer to a request.
    pub(super) fn scribe(&self, number: usize) -> AnswerLog {
        AnswerLog::new(self.log.clone(), number)
    }

    /// The next unused number.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// What goes wrong with the next request to this model.
    pub(super) fn faults(&self, model: &str) -> Result<Vec<Fault>, UnknownFault> {
        let mut faults = fault::of_model(model)?;
        faults.extend(self.options.faults.iter().cloned());
        let mut faults = lock(&self.happened).next(model, faults);
        let mut dice = lock(&self.dice);
        if dice.happens(self.options.chaos) {
            faults.push(fault::any(&mut dice));
        }
        Ok(faults)
    }

    /// Keeps a response for later requests.
    pub(super) fn keep(&self, id: &str, record: StoredResponse) {
        let mut kept = lock(&self.kept);
        kept.retain(|(own, _)| own != id);
        kept.push_back((id.into(), record));
        while kept.len() > self.options.kept_len_max {
            kept.pop_front();
        }
    }

    pub(super) fn kept(&self, id: &str) -> Option<StoredResponse> {
        lock(&self.kept).iter().find(|(own, _)| own == id).map(|(_, record)| record.clone())
    }

    /// What a request that builds upon a response must know of it. One that is not over cannot be built upon.
    pub(super) fn chainable(&self, id: &str) -> Option<EarlierResponse> {
        let response = match self.kept(id)? {
            StoredResponse::Done(response) => response,
            StoredResponse::Background(generation) => Arc::new(generation.completed()?),
        };
        let calls = response["output"].as_array().into_iter().flatten().filter(|item| item["type"] == "function_call");
        Some(EarlierResponse { calls: calls.filter_map(|call| call["call_id"].as_str()).map(Into::into).collect() })
    }

    pub(super) fn connections_open(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Counts a connection until this is dropped.
    pub(super) fn connected(self: &Arc<Self>) -> Connected {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(self.clone())
    }
}

pub(super) struct Connected(Arc<ServerState>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
