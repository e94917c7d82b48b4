//! Seals of thinking, on their way to a client and back.
//!
//! A provider takes its own thinking back only with its seal, to the byte. A seal of the protocol's own provider is
//! what its clients hold anyway. That of another provider is packed with the model's name into one text, so that nothing has to be
//! looked up when it comes back, however much later.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everturn::core::ids::ModelId;
use everturn::core::message::{Body, Part, Reply, ReplyBody, RunBy, Seal};
use serde_json::{Value, json};

use crate::fronts::gateway::answer::SealedBy;

/// How a packed seal begins. No provider's does.
const PACKED: &str = "everturn1.";
/// The seal as a client of this provider's protocol holds it.
pub(crate) fn told(sealed: &SealedBy, provider: &str) -> Seal {
    if sealed.model.provider() == provider {
        return sealed.seal.clone();
    }
    let pack = |kind: &str, seal: &str| {
        let packed = json!([sealed.model.to_string(), kind, seal]).to_string();
        format!("{PACKED}{}", URL_SAFE_NO_PAD.encode(packed))
    };
    match &sealed.seal {
        Seal::Signature(seal) => Seal::Signature(pack("s", seal)),
        Seal::Redacted(seal) => Seal::Redacted(pack("r", seal)),
    }
}

/// The seal and its model, if a client's text holds a packed one.
fn unpacked(seal: &Seal) -> Option<SealedBy> {
    let (Seal::Signature(text) | Seal::Redacted(text)) = seal;
    let packed = URL_SAFE_NO_PAD.decode(text.strip_prefix(PACKED)?).ok()?;
    let packed: Value = serde_json::from_slice(&packed).ok()?;
    let model: ModelId = packed[0].as_str()?.parse().ok()?;
    let seal = packed[2].as_str()?.to_owned();
    let seal = if packed[1] == "r" { Seal::Redacted(seal) } else { Seal::Signature(seal) };
    Some(SealedBy { seal, model })
}

/// Gives thinking in a reply of the client's its own seal back, and the reply the model that it is of. What else clients
/// hold about its parts are names of ours, which mean nothing to a provider.
pub(crate) fn unpack(body: &mut Body) {
    let Body::Reply(reply) = body else { return };
    let mut changed = ReplyBody::clone(reply);
    for part in &mut changed.parts {
        match part {
            Part::Reasoning(reasoning) => {
                reasoning.meta.clear();
                if let Some(found) = reasoning.seal.as_ref().and_then(unpacked) {
                    reasoning.seal = Some(found.seal);
                    changed.model = found.model;
                }
            }
            Part::Text(text) => text.meta.clear(),
            Part::Call(call) if call.run_by == RunBy::Us => call.meta.clear(),
            _ => {}
        }
    }
    **reply = Reply::restored(changed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seals_come_back_as_they_were() {
        for seal in [Seal::Signature("a\"b".into()), Seal::Redacted("x".into())] {
            let other = SealedBy { seal: seal.clone(), model: "understudy/m".parse().unwrap() };
            assert_eq!(unpacked(&told(&other, "anthropic")), Some(other));
            let own = SealedBy { seal: seal.clone(), model: "anthropic/m".parse().unwrap() };
            assert_eq!(told(&own, "anthropic"), seal);
            assert_eq!(unpacked(&seal), None);
        }
        assert_eq!(unpacked(&Seal::Signature("everturn1.%%".into())), None);
    }
}
