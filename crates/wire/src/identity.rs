use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use sha2::{Digest, Sha256};

/// A certificate made for one process, and its key. Nobody vouches for it: peers know it by its fingerprint.
#[derive(Clone)]
pub struct Identity {
    config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
    der: Arc<Der>,
}

/// A certificate and its key as bytes, to be kept where only their owner can read them.
#[derive(Clone)]
pub struct Der {
    /// X.509.
    pub certificate: Vec<u8>,
    /// PKCS #8.
    pub key: Vec<u8>,
}

impl fmt::Debug for Der {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Der")
    }
}

impl Identity {
    /// A new key, and a certificate for it.
    pub fn generate() -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
        Self::from_der(Der { certificate: made.cert.der().to_vec(), key: made.signing_key.serialize_der() })
    }

    /// One that was kept.
    pub fn from_der(der: Der) -> io::Result<Self> {
        let certificate = CertificateDer::from(der.certificate.clone());
        let fingerprint = Fingerprint::of(&certificate);
        let key = PrivatePkcs8KeyDer::from(der.key.clone());
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map(|builder| builder.with_no_client_auth())
            .and_then(|builder| builder.with_single_cert(vec![certificate], key.into()));
        let mut config = config.map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A processor that lacks AES is the slower one of the two, whichever side it is on.
        config.ignore_client_order = !has_aes();
        config.enable_secret_extraction = true;
        // Nobody resumes a session.
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), fingerprint, der: Arc::new(der) })
    }

    /// To be kept: whoever has it can take this identity's place.
    pub fn to_der(&self) -> &Der {
        &self.der
    }

    /// What peers are told, so that they recognise the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.fingerprint).finish()
    }
}

/// The name in all certificates: nothing depends on it.
pub(crate) const NAME: &str = "bonfire";

/// The SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }

    /// The hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<&[u8]> for Fingerprint {
    type Error = std::array::TryFromSliceError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        bytes.try_into().map(Self)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "Fingerprint({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// How to speak to a peer that shows the certificate of this fingerprint, and to no other.
pub(crate) fn client_config(fingerprint: Fingerprint) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = provider();
    let pin = Arc::new(Pin { fingerprint, provider: Arc::clone(&provider) });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(pin)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

/// A number from the system's randomness.
pub fn random_number() -> io::Result<u64> {
    random_bytes().map(u64::from_le_bytes)
}

/// Some bytes from the system's randomness.
pub(crate) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes)
}

/// The cipher that this processor is fastest at comes first: the caller's order decides, unless the called side is the
/// one without AES.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let aes = ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let chacha = ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
    let cipher_suites = if has_aes() { vec![aes, chacha] } else { vec![chacha, aes] };
    Arc::new(CryptoProvider { cipher_suites, ..ring::default_provider() })
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}

/// Trusts one certificate. That the peer has its key, too, the handshake's signature shows.
#[derive(Debug)]
struct Pin {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if Fingerprint::of(end_entity) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
