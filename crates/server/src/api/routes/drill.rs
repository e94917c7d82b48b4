//! Breaking things in front of a person, in a server whose models the stand-in plays.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use tokio::time::sleep;

use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::Json;
use crate::api::wire;
use crate::app::{App, SharedApp};
use crate::auth::access::{Authorized, Chatting};
use crate::auth::audit;

/// How long the answer has to reach the client before the process is killed.
const ANSWER_TIME: Duration = Duration::from_millis(100);

/// Breaks something for show. Only a server without any key, which listens on loopback alone, does this; another answers
/// 404.
#[utoipa::path(post, path = "/v1/drill", operation_id = "runDrill", tag = "server", request_body = wire::DrillOrder, security(("token" = [])), responses(
    (status = 200, description = "It is broken", body = wire::Drilled),
    (status = 404, description = "The server does real work", body = wire::ProblemBody),
    (status = 422, description = "No parent would start another process", body = wire::ProblemBody),
))]
pub async fn order(
    caller: Authorized<Chatting>,
    State(app): State<SharedApp>,
    Json(wire::DrillOrder { what }): Json<wire::DrillOrder>,
) -> Result<Answer<wire::Drilled>, Problem> {
    let drill = app.drill.as_ref().ok_or_else(Problem::not_found)?;
    match (what, drill.kill) {
        (wire::DrillKind::Cut, _) => {
            audit::drilled(caller.token(), "cut");
            Ok(Answer(wire::Drilled { streams: drill.stand_in.cut_streams() as u64 }))
        }
        (wire::DrillKind::Kill, Some(kill)) => {
            audit::drilled(caller.token(), "kill");
            tokio::spawn(async move {
                sleep(ANSWER_TIME).await;
                kill();
            });
            Ok(Answer(wire::Drilled { streams: 0 }))
        }
        (wire::DrillKind::Kill, None) => {
            let detail = "No parent would start the server again; run `everturn demo --page`.";
            Err(Problem::new(ProblemKind::Invalid, detail))
        }
    }
}

/// What the server breaks.
pub fn offered(app: &App) -> Vec<wire::DrillKind> {
    match &app.drill {
        None => Vec::new(),
        Some(drill) if drill.kill.is_some() => vec![wire::DrillKind::Cut, wire::DrillKind::Kill],
        Some(_) => vec![wire::DrillKind::Cut],
    }
}
