//! What a chat needs before it may work: a work slot of this process, a permit for the provider's credential, and money
//! left in its owner's budget.

pub(crate) mod budget;
pub(crate) mod governor;
pub(crate) mod slots;
