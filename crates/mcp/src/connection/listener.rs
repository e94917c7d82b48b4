//! What a server sends without being asked: progress of calls, and that its tools have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientConfig, ProgressNotificationParam, ProgressToken};
use rmcp::service::NotificationContext;
use rmcp::{ClientHandler, RoleClient};
use tokio::sync::watch;

use crate::handshake::client_config;

type Watches = Arc<Mutex<HashMap<ProgressToken, watch::Sender<String>>>>;

/// Receives what a server sends without being asked. Requests of servers are refused or declined: servers before 2026 ask
/// while a call runs, which could not outlive this process. Later ones ask in their answers.
pub(super) struct Listener {
    watches: Watches,
    changed: watch::Sender<()>,
}

/// The progress of one call.
pub(super) struct ProgressWatch {
    token: ProgressToken,
    watches: Watches,
    newest: watch::Receiver<String>,
}

impl Listener {
    /// A listener, and what changes when the server says that its tools have changed.
    pub(super) fn new() -> (Self, watch::Receiver<()>) {
        let (changed, receiver) = watch::channel(());
        (Self { watches: Arc::default(), changed }, receiver)
    }

    /// Watches the progress of a call until the watch is dropped.
    pub(super) fn watch(&self, token: ProgressToken) -> ProgressWatch {
        let (told, newest) = watch::channel(String::new());
        locked(&self.watches).insert(token.clone(), told);
        ProgressWatch { token, watches: self.watches.clone(), newest }
    }
}

impl ProgressWatch {
    /// The newest text about the progress, once there is another one.
    pub(super) async fn next(&mut self) -> Option<String> {
        self.newest.changed().await.ok()?;
        Some(self.newest.borrow_and_update().clone())
    }
}

impl Drop for ProgressWatch {
    fn drop(&mut self) {
        locked(&self.watches).remove(&self.token);
    }
}

fn locked(watches: &Watches) -> MutexGuard<'_, HashMap<ProgressToken, watch::Sender<String>>> {
    watches.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientHandler for Listener {
    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let so_far = match params.total {
            Some(total) => format!("{} of {total}", params.progress),
            None => params.progress.to_string(),
        };
        let text = match params.message {
            Some(message) => format!("{message} ({so_far})"),
            None => so_far,
        };
        if let Some(watch) = locked(&self.watches).get(&params.progress_token) {
            watch.send_replace(text);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.send_replace(());
    }

    fn get_info(&self) -> ClientConfig {
        client_config()
    }
}
