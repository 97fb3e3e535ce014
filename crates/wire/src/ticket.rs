use std::fmt;
use std::io;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::base64url;
use crate::grpc::ConnectSecurity;
use crate::identity::{Fingerprint, random_bytes};

/// What lets a node join a run, in one word: `bonfire://HOST:PORT/CODE`.
///
/// The code is a version byte, a byte that says whether there is TLS, the certificate's fingerprint if there is, the
/// secret, and a checksum over all that and the address, because tickets are copied by hand and cut by terminals.
/// The checksum is at the end in every version, so that a damaged ticket is not taken for one of another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Where the head is, as `HOST:PORT`.
    pub address: String,
    /// What certificate it shows; none without TLS.
    pub fingerprint: Option<Fingerprint>,
    /// What the head wants to see.
    pub secret: Secret,
}

const SCHEME: &str = "bonfire://";
const VERSION: u8 = 1;
const PLAIN: u8 = 0;
const TLS: u8 = 1;
const CHECKSUM_BYTES: usize = 4;

impl Ticket {
    /// How to connect to the head.
    pub fn security(&self) -> ConnectSecurity {
        self.fingerprint.map_or(ConnectSecurity::Plain, ConnectSecurity::Tls)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut code = vec![VERSION, if self.fingerprint.is_some() { TLS } else { PLAIN }];
        if let Some(fingerprint) = &self.fingerprint {
            code.extend_from_slice(fingerprint.as_bytes());
        }
        code.extend_from_slice(&self.secret.0);
        let checksum = checksum(&self.address, &code);
        code.extend_from_slice(&checksum);
        write!(f, "{SCHEME}{}/{}", self.address, base64url::encode(&code))
    }
}

fn checksum(address: &str, code: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let digest = Sha256::new().chain_update(address).chain_update([0]).chain_update(code).finalize();
    std::array::from_fn(|i| digest[i])
}

/// Why a text is not a ticket that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketError {
    /// It looks like something else.
    NotATicket,
    /// It was one.
    Damaged,
    /// It is from another version of the program.
    OtherVersion(u8),
}

impl fmt::Display for TicketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotATicket => {
                f.write_str("not a ticket: one looks like bonfire://HOST:PORT/CODE, as the head prints it")
            }
            Self::Damaged => {
                f.write_str("the ticket is cut short or mistyped: copy the whole word that the head prints")
            }
            Self::OtherVersion(version) => write!(
                f,
                "the ticket is of version {version}, this program knows version {VERSION}: run the same version \
                 everywhere"
            ),
        }
    }
}

impl std::error::Error for TicketError {}

impl FromStr for Ticket {
    type Err = TicketError;

    fn from_str(text: &str) -> Result<Self, TicketError> {
        let rest = text.trim().strip_prefix(SCHEME).ok_or(TicketError::NotATicket)?;
        let (address, code) = rest.split_once('/').ok_or(TicketError::Damaged)?;
        let code = base64url::decode(code).ok_or(TicketError::Damaged)?;
        let (body, sum) = code.split_last_chunk().ok_or(TicketError::Damaged)?;
        if checksum(address, body) != *sum {
            return Err(TicketError::Damaged);
        }
        let (fingerprint, secret) = match body {
            [VERSION, PLAIN, secret @ ..] => (None, secret),
            [VERSION, TLS, rest @ ..] => {
                let (fingerprint, secret) = rest.split_first_chunk::<32>().ok_or(TicketError::Damaged)?;
                (Some(Fingerprint::from(*fingerprint)), secret)
            }
            [VERSION, ..] | [] => return Err(TicketError::Damaged),
            [version, ..] => return Err(TicketError::OtherVersion(*version)),
        };
        let secret = Secret(secret.try_into().map_err(|_| TicketError::Damaged)?);
        Ok(Self { address: address.to_owned(), fingerprint, secret })
    }
}

/// What a peer must show to be let in. Never printed but in a ticket.
#[derive(Clone)]
pub struct Secret([u8; 16]);

impl Secret {
    /// From the system's randomness.
    pub fn generate() -> io::Result<Self> {
        random_bytes().map(Self)
    }

    /// The secret itself, to be kept where only its owner can read it.
    pub fn reveal(&self) -> [u8; 16] {
        self.0
    }

    /// How a caller shows it.
    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", base64url::encode(&self.0))
    }

    /// Whether a caller shows it. Takes the same time wherever the difference is.
    pub(crate) fn is_shown_by(&self, authorization: &str) -> bool {
        same(self.bearer().as_bytes(), authorization.as_bytes())
    }
}

impl From<[u8; 16]> for Secret {
    fn from(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

fn same(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
    a.len() == b.len() && difference == 0
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        same(&self.0, &other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_spoil::{Chance, Trial};

    fn ticket(fingerprint: Option<Fingerprint>) -> Ticket {
        Ticket { address: "head.local:4711".to_owned(), fingerprint, secret: Secret([7; 16]) }
    }

    #[test]
    fn a_ticket_is_one_word_and_comes_back() {
        for fingerprint in [None, Some(Fingerprint::from([9; 32]))] {
            let before = ticket(fingerprint);
            let word = before.to_string();
            assert!(word.starts_with("bonfire://head.local:4711/"), "{word}");
            assert!(!word.contains(char::is_whitespace) && word.is_ascii(), "{word}");
            assert_eq!(word.parse(), Ok(before.clone()));
            assert_eq!(format!(" {word}\n").parse(), Ok(before));
        }
    }

    #[test]
    fn what_is_no_ticket_is_told_apart() {
        let check = |text: &str, expect: TicketError| {
            assert_eq!(text.parse::<Ticket>(), Err(expect), "{text:?}");
        };
        let word = ticket(Some(Fingerprint::from([9; 32]))).to_string();
        check("", TicketError::NotATicket);
        check("head.local:4711", TicketError::NotATicket);
        check("https://head.local:4711/abc", TicketError::NotATicket);
        check("bonfire://head.local:4711", TicketError::Damaged);
        for end in SCHEME.len()..word.len() {
            check(&word[..end], TicketError::Damaged);
        }
        check(&word.replace("4711", "4712"), TicketError::Damaged);
        for place in word.rfind('/').unwrap() + 1..word.len() {
            let other = if word.as_bytes()[place] == b'x' { "y" } else { "x" };
            let mut mistyped = word.clone();
            mistyped.replace_range(place..=place, other);
            check(&mistyped, TicketError::Damaged);
        }
        let mut code = vec![2, 0, 1, 2, 3];
        code.extend(checksum("a:1", &code));
        check(&format!("bonfire://a:1/{}", base64url::encode(&code)), TicketError::OtherVersion(2));
    }

    /// A ticket that is damaged, or has a code of anything under a right checksum.
    fn spoilt(chance: &mut Chance) -> String {
        let fingerprint = chance.percent(50).then(|| Fingerprint::from([9; 32]));
        let word = ticket(fingerprint).to_string();
        if chance.percent(60) {
            return String::from_utf8_lossy(&chance.spoil(word.as_bytes())).into_owned();
        }
        let len = *chance.pick(&[0, 1, 2, 17, 18, 19, 49, 50, 51, 60]);
        let mut code = chance.bytes(len);
        code.iter_mut().zip([VERSION, TLS]).for_each(|(byte, known)| {
            if chance.percent(70) {
                *byte = known - chance.below(2) as u8;
            }
        });
        let address = chance.text().replace('/', "");
        code.extend(checksum(&address, &code));
        format!("{SCHEME}{address}/{}", base64url::encode(&code))
    }

    #[test]
    fn no_text_takes_the_program_down() {
        let make = |chance: &mut Chance| {
            let text = spoilt(chance);
            let most = 4 * text.len() + 256;
            (text, most)
        };
        Trial { name: "tickets", cases: 100_000 }.run(make, |text| {
            let Ok(ticket) = text.parse::<Ticket>() else { return false };
            assert_eq!(ticket.to_string(), text.trim(), "what is read is what was written");
            true
        });
        let make = |chance: &mut Chance| {
            let bytes = chance.bytes(20);
            let text =
                String::from_utf8_lossy(&chance.spoil(base64url::encode(&bytes).as_bytes())).into_owned();
            let most = 3 * text.len() + 64;
            (text, most)
        };
        Trial { name: "base64url", cases: 100_000 }.run(make, |text| {
            let bytes = base64url::decode(&text);
            assert!(bytes.as_ref().is_none_or(|bytes| base64url::encode(bytes) == text));
            bytes.is_some()
        });
    }

    #[test]
    fn secrets_are_not_printed() {
        let text = format!("{:?}", ticket(None));
        assert!(!text.contains('7') || text.contains("4711") && text.matches('7').count() == 1, "{text}");
        assert_ne!(Secret::generate().unwrap(), Secret::generate().unwrap());
    }
}
