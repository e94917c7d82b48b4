//! Seals of thinking, on their way to a client and back.
//!
//! A provider takes its own thinking back only with its seal, to the byte. A seal of Anthropic's is what clients of this
//! protocol hold anyway. That of another provider is packed with the model's name into one text, so that nothing has to be
//! looked up when it comes back, however much later.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everturn::core::ids::ModelId;
use everturn::core::message::Seal;
use serde_json::{Value, json};

use crate::fronts::gateway::answer::SealedBy;

/// How a packed seal begins. No provider's does.
const PACKED: &str = "everturn1.";
/// The provider whose seals are not packed.
const PLAIN: &str = "anthropic";

/// The seal as a client holds it.
pub(super) fn told(sealed: &SealedBy) -> Seal {
    if sealed.model.provider() == PLAIN {
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
pub(super) fn unpacked(seal: &Seal) -> Option<SealedBy> {
    let (Seal::Signature(text) | Seal::Redacted(text)) = seal;
    let packed = URL_SAFE_NO_PAD.decode(text.strip_prefix(PACKED)?).ok()?;
    let packed: Value = serde_json::from_slice(&packed).ok()?;
    let model: ModelId = packed[0].as_str()?.parse().ok()?;
    let seal = packed[2].as_str()?.to_owned();
    let seal = if packed[1] == "r" { Seal::Redacted(seal) } else { Seal::Signature(seal) };
    Some(SealedBy { seal, model })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seals_come_back_as_they_were() {
        for seal in [Seal::Signature("a\"b".into()), Seal::Redacted("x".into())] {
            let other = SealedBy { seal: seal.clone(), model: "understudy/m".parse().unwrap() };
            assert_eq!(unpacked(&told(&other)), Some(other));
            let own = SealedBy { seal: seal.clone(), model: "anthropic/m".parse().unwrap() };
            assert_eq!(told(&own), seal);
            assert_eq!(unpacked(&seal), None);
        }
        assert_eq!(unpacked(&Seal::Signature("everturn1.%%".into())), None);
    }
}
