//! Values of options.

use anyhow::{Context, Result};

const UNITS: [(&str, u64); 3] = [("kb", 1_000), ("mb", 1_000_000), ("gb", 1_000_000_000)];

/// A size such as 512MB, in bytes.
pub(crate) fn size(given: &str) -> Result<u64> {
    let lower = given.to_lowercase();
    let found = UNITS.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?, *bytes)));
    let (number, unit) = found.unwrap_or((&lower, 1));
    let number: Option<u64> = number.trim().parse().ok();
    number.and_then(|number| number.checked_mul(unit)).context("expected a size such as 512MB or 2GB")
}

/// A host and a port.
pub(crate) fn address(given: &str) -> Result<(String, u16)> {
    let found = given.rsplit_once(':').and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    found.filter(|(host, _)| !host.is_empty()).context("expected an address such as 10.0.0.1:50050")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_addresses_are_read() {
        let sizes = ["512MB", "2 gb", "64000000", "", "5TB", "-1MB"].map(|given| size(given).ok());
        assert_eq!(sizes, [Some(512_000_000), Some(2_000_000_000), Some(64_000_000), None, None, None]);
        assert_eq!(address("10.0.0.1:50050").unwrap(), ("10.0.0.1".to_owned(), 50050));
        for wrong in ["10.0.0.1", ":50050", "host:port", "host:70000"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
