//! The front of the Vercel AI SDK's UI message stream, under `/ai/6` and `/ai/7`.

use super::FrontRoute;

/// The routes.
pub(super) fn routes() -> Vec<FrontRoute> {
    Vec::new()
}
