//! A store around another store, for tests that make one method slow, faulty or counted.
//!
//! [`StoreLayer`] has every method of [`Store`] with a body that calls the inner store, so a test double writes only
//! the methods it changes. [`Layered`] makes a store of it. Both come from one list of signatures: a new method of
//! `Store` is one line here.

use std::collections::BTreeSet;
use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;

use async_trait::async_trait;
use everturn_core::budget::{BudgetUse, Day};
use everturn_core::command::InboxCommand;
use everturn_core::fact::{AttemptRecord, Fact};
use everturn_core::ids::{ChatId, MessageId, Version};
use everturn_core::limits::Limits;
use everturn_core::message::Message;
use everturn_core::view::{Cursor, JournalRow, Standing};
use everturn_stores::{
    Ack, AppendRight, CallRecord, ChatQuery, CommandRef, Heading, Hint, Lease, LoadPart, Loaded, MakeError,
    MessageRange, MessageReader, NewChat, NewsRead, Receipt, Store, StoreError, Submission, SubmitError, Submitted,
    Unsettled, WriteError,
};

/// Which side calls the store: a layer over two processes sends each side to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The process that drives the chat.
    Driver,
    /// A process that serves clients.
    Client,
}

/// A store made of a layer. Dereferences to the layer, so that a test can steer it.
#[derive(Debug, Default)]
pub struct Layered<L>(pub L);

impl<L> Deref for Layered<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.0
    }
}

macro_rules! layer {
    ($($side:ident fn $name:ident(&self $(, $arg:ident: $kind:ty)*) $(-> $result:ty)?;)*) => {
        /// What a store double changes. Every method calls the inner store unless it is overridden.
        #[async_trait]
        #[expect(missing_docs, reason = "the methods are those of `Store`")]
        pub trait StoreLayer: Send + Sync + 'static {
            /// The inner store.
            type Store: Store;
            /// A reference to the inner store, perhaps a guard.
            type Inner<'a>: Deref<Target = Self::Store> + Send + Sync
            where
                Self: 'a;

            /// The inner store for one call.
            async fn inner(&self, access: Access) -> Self::Inner<'_>;

            $(async fn $name(&self $(, $arg: $kind)*) $(-> $result)? {
                self.inner(Access::$side).await.$name($($arg),*).await
            })*

            fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> NewsRead<'_> {
                NewsRead::reading(async move { self.inner(Access::Client).await.since(chat, cursor).await })
            }

            fn holds(&self, _lease: &Lease) -> bool {
                true
            }

            async fn hint(&self) -> Hint {
                std::future::pending().await
            }
        }

        #[async_trait]
        impl<L: StoreLayer> Store for Layered<L> {
            $(async fn $name(&self $(, $arg: $kind)*) $(-> $result)? {
                StoreLayer::$name(&self.0 $(, $arg)*).await
            })*

            fn since(&self, chat: ChatId, cursor: Option<Cursor>) -> NewsRead<'_> {
                StoreLayer::since(&self.0, chat, cursor)
            }

            fn holds(&self, lease: &Lease) -> bool {
                StoreLayer::holds(&self.0, lease)
            }

            async fn hint(&self) -> Hint {
                StoreLayer::hint(&self.0).await
            }
        }
    };
}

layer! {
    Client fn create(&self, new: &NewChat) -> Result<ChatId, MakeError>;
    Client fn created(&self, new: &NewChat) -> Result<Option<ChatId>, MakeError>;
    Client fn keyed(&self, owner: &str, key: &str) -> Result<Option<ChatId>, StoreError>;
    Driver fn delete(&self, lease: Lease) -> Result<(), WriteError>;
    Driver fn used_below(&self, chat: ChatId) -> Result<BudgetUse, StoreError>;
    Driver fn orphans(&self) -> Result<Vec<ChatId>, StoreError>;
    Client fn headings(&self, query: &ChatQuery) -> Result<Vec<Heading>, StoreError>;
    Client fn working(&self, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, StoreError>;
    Client fn used(&self, owner: &str, days: RangeInclusive<Day>) -> Result<BudgetUse, StoreError>;
    Client fn submit(&self, chat: ChatId, submission: Submission, limits: &Limits) -> Result<Receipt, SubmitError>;
    Client fn submitted(&self, chat: ChatId, command: CommandRef<'_>) -> Result<Option<Submitted>, StoreError>;
    Driver fn inbox(&self, chat: ChatId) -> Result<Vec<InboxCommand>, StoreError>;
    Driver fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError>;
    Driver fn acquire(&self, chat: ChatId) -> Result<Lease, WriteError>;
    Driver fn release(&self, lease: Lease) -> Result<(), StoreError>;
    Driver fn load_held(&self, lease: &Lease, part: LoadPart) -> Result<Loaded, WriteError>;
    Driver fn append(&self, right: AppendRight, rows: Vec<JournalRow>, ack: Ack);
    Driver fn commit(&self, lease: &mut Lease, facts: &[Fact]) -> Result<Version, WriteError>;
    Client fn standing(&self, chat: ChatId) -> Result<Standing, StoreError>;
    Client fn message(&self, chat: ChatId, id: MessageId, reader: MessageReader) -> Result<Option<Arc<Message>>, StoreError>;
    Client fn messages(&self, chat: ChatId, range: MessageRange) -> Result<Vec<Arc<Message>>, StoreError>;
    Client fn attempts(&self, chat: ChatId, seen: usize, len: usize) -> Result<Vec<AttemptRecord>, StoreError>;
    Client fn calls(&self, chat: ChatId) -> Result<Vec<CallRecord>, StoreError>;
    Client fn ready(&self) -> Result<(), StoreError>;
}
