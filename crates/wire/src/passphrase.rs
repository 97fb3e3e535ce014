use std::io;
use std::num::NonZeroU32;

use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SerialNumber};
use ring::pbkdf2;
use rustls::pki_types::PrivatePkcs8KeyDer;

use crate::identity::{Der, Identity, NAME};
use crate::ticket::Secret;

/// What follows from a passphrase that people have told all nodes of a run, where nothing else could carry a ticket:
/// the head's certificate and the secret, the same on every node.
///
/// Whoever reaches the head can see its certificate and try passphrases against it. So a passphrase must be hard to
/// guess, and every try is made to take long.
#[derive(Clone, Debug)]
pub struct Passphrase {
    /// What the head shows.
    pub identity: Identity,
    /// What nodes show.
    pub secret: Secret,
}

/// Shorter ones are found by trying.
const PASSPHRASE_LETTERS: usize = 8;

/// About a fifth of a second, here as there.
const ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("not zero");

/// The same for all: nodes have nothing in common but the passphrase. It keeps tables made for others from being of
/// use. These bytes are part of what follows from a passphrase, and so they stay as they were first chosen.
const SALT: &[u8] = b"bonfire watchword 1";

/// What stands before the 32 bytes of an Ed25519 key in PKCS #8.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

impl Passphrase {
    /// Derives certificate and secret. Takes about a fifth of a second.
    pub fn new(passphrase: &str) -> io::Result<Self> {
        if passphrase.chars().count() < PASSPHRASE_LETTERS {
            let message =
                format!("a secret of fewer than {PASSPHRASE_LETTERS} letters is soon found by trying");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut bytes = [0; 48];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, SALT, passphrase.as_bytes(), &mut bytes);
        let (key, secret) = bytes.split_at(32);
        let secret: [u8; 16] = std::array::from_fn(|i| secret[i]);
        Ok(Self { identity: identity(key)?, secret: Secret::from(secret) })
    }
}

/// The identity of a key. Nothing in the certificate depends on time or chance, and signatures of Ed25519 do not
/// either.
fn identity(seed: &[u8]) -> io::Result<Identity> {
    let key = [&PKCS8, seed].concat();
    let pair = PrivatePkcs8KeyDer::from(key.as_slice());
    let pair = KeyPair::from_pkcs8_der_and_sign_algo(&pair, &PKCS_ED25519).map_err(io::Error::other)?;
    let mut params = CertificateParams::new([NAME.to_owned()]).map_err(io::Error::other)?;
    params.serial_number = Some(SerialNumber::from(1u64));
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(4000, 1, 1);
    let certificate = params.self_signed(&pair).map_err(io::Error::other)?.der().to_vec();
    Identity::from_der(Der { certificate, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_passphrase_is_the_same_certificate_and_secret() {
        let (one, same) = (Passphrase::new("glowing embers"), Passphrase::new("glowing embers"));
        let (one, same) = (one.expect("a passphrase"), same.expect("a passphrase"));
        assert_eq!(one.identity.fingerprint(), same.identity.fingerprint());
        assert_eq!(one.identity.to_der().certificate, same.identity.to_der().certificate);
        assert_eq!(one.secret, same.secret);
        let other = Passphrase::new("glowing ember").expect("a passphrase");
        assert_ne!(one.identity.fingerprint(), other.identity.fingerprint());
        assert_ne!(one.secret, other.secret);
    }

    /// Nodes of another build must come to the same: this changes only with the version in the salt.
    #[test]
    fn what_follows_from_a_passphrase_stays() {
        let derived = Passphrase::new("glowing embers").expect("a passphrase");
        let hex: String =
            derived.identity.fingerprint().as_bytes()[..8].iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "1ec02b362fdd76e3");
    }

    #[test]
    fn short_passphrases_are_refused() {
        let error = Passphrase::new("ember").expect_err("too short");
        assert!(error.to_string().contains("fewer than 8 letters"), "{error}");
    }
}
