//! IP addresses and networks, for configured proxies.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address, or all addresses with the same prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    bits: u8,
}

/// A text that is not an address or network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address and no network, such as 10.1.2.3 or 10.0.0.0/8")]
pub struct BadNetwork(String);

impl Network {
    /// Whether every address is in it.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.bits == 0
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        let (base, address) = (self.base, address.to_canonical());
        let differ = match (base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => (base.to_bits() ^ address.to_bits()).leading_zeros(),
            (IpAddr::V6(base), IpAddr::V6(address)) => (base.to_bits() ^ address.to_bits()).leading_zeros(),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
        };
        differ >= u32::from(self.bits)
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let no = || BadNetwork(text.into());
        let (base, bits) = text.split_once('/').map_or((text, None), |(base, bits)| (base, Some(bits)));
        let base: IpAddr = base.parse().map_err(|_| no())?;
        let all = if base.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), |bits| bits.parse().map_err(|_| no()))?;
        if bits > all {
            return Err(no());
        }
        Ok(Self { base, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_what_begins_alike() {
        for (network, inside, outside) in [
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.0.0.1", "::10.0.0.1"),
            ("192.168.1.128/25", "192.168.1.200", "192.168.1.1"),
            ("0.0.0.0/0", "8.8.8.8", "::1"),
            ("fd00::/8", "fdff::1", "fe80::1"),
            ("::1", "::1", "::2"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.has(inside.parse().unwrap()), "{network} {inside}");
            assert!(!network.has(outside.parse().unwrap()), "{network} {outside}");
        }
        for wrong in ["", "proxy", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "::1/129", "10.0.0.1/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
