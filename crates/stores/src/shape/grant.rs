//! What is stored of asks and grants.

use std::borrow::Cow;

use everturn_core::ids::Timestamp;
use everturn_core::{chat, permission};
use serde::{Deserialize, Serialize};

use super::name::EffectWord;
use super::value::{Uid, unset};

/// The mirror of what a person should know about an ask.
#[derive(Serialize, Deserialize)]
pub struct AskDetail<'a> {
    basis: Cow<'a, str>,
    effect: EffectWord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confinement: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grant: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "unset")]
    terms: Cow<'a, str>,
}

/// The mirror of a grant.
#[derive(Serialize, Deserialize)]
pub struct Grant<'a> {
    call: Uid,
    rule: Cow<'a, str>,
    terms: Cow<'a, str>,
    by: Cow<'a, str>,
    at: i64,
    until: i64,
}

impl<'a> From<&'a chat::AskDetail> for AskDetail<'a> {
    fn from(detail: &'a chat::AskDetail) -> Self {
        let chat::AskDetail { basis, effect, path, confinement, grant, terms } = detail;
        Self {
            basis: basis.into(),
            effect: (*effect).into(),
            path: path.as_ref().map(Cow::from),
            confinement: confinement.as_ref().map(Cow::from),
            grant: grant.as_ref().map(Cow::from),
            terms: terms.into(),
        }
    }
}

impl From<AskDetail<'_>> for chat::AskDetail {
    fn from(AskDetail { basis, effect, path, confinement, grant, terms }: AskDetail<'_>) -> Self {
        Self {
            basis: basis.into_owned(),
            effect: effect.into(),
            path: path.map(Cow::into_owned),
            confinement: confinement.map(Cow::into_owned),
            grant: grant.map(Cow::into_owned),
            terms: terms.into_owned(),
        }
    }
}

impl<'a> From<&'a permission::Grant> for Grant<'a> {
    fn from(permission::Grant { call, rule, terms, by, at, until }: &'a permission::Grant) -> Self {
        let (rule, terms, by) = (rule.into(), terms.into(), by.into());
        Self { call: (*call).into(), rule, terms, by, at: at.0, until: until.0 }
    }
}

impl From<Grant<'_>> for permission::Grant {
    fn from(Grant { call, rule, terms, by, at, until }: Grant<'_>) -> Self {
        Self {
            call: call.into(),
            rule: rule.into_owned(),
            terms: terms.into_owned(),
            by: by.into_owned(),
            at: Timestamp(at),
            until: Timestamp(until),
        }
    }
}
