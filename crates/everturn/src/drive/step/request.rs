//! Pictures and files that a provider refuses.
//!
//! A picture that is too large, cut off or not what it says it is gets the whole request refused, and it stays in the
//! transcript. So a request that shows media and is refused for good is made once more with a line in place of each. If
//! that is answered, media were the reason, and up to there they are not shown again in this chat.

use std::sync::Arc;

use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::ids::MessageId;
use everturn_core::message::Message;
use everturn_core::prompt::{Prompt, PromptEntries, Target};

use crate::drive::Driver;

impl Driver {
    /// Up to which message media are told of and not shown.
    pub(crate) const fn unseen(&self) -> MessageId {
        if self.chat.tried.blind { MessageId(u64::MAX) } else { self.chat.unseen }
    }

    /// The entries of some messages.
    pub(crate) fn prepared<'a>(
        &self,
        messages: impl IntoIterator<Item = &'a Arc<Message>>,
        target: &Target,
    ) -> PromptEntries {
        let mut prompt = Prompt::unseeing(target.clone(), self.unseen());
        messages.into_iter().for_each(|message| prompt.push(message));
        prompt.entries()
    }

    /// Whether a request may have been refused for the media it shows.
    pub(crate) fn may_be_media(&self, error: &ProviderError) -> bool {
        let for_good = error.retry == Retry::Never && error.cause == Cause::Refused;
        for_good
            && matches!(error.kind, ErrorKind::Generic | ErrorKind::Config)
            && self.asked().is_ok_and(|asked| self.request(&asked).entries.have_media())
    }
}
