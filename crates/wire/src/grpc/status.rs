use http::{HeaderMap, HeaderValue, Response};

use super::end::text;
use crate::frame::FrameError;

/// How a call went, by gRPC's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrpcStatus {
    Ok = 0,
    InvalidArgument = 3,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unauthenticated = 16,
}

pub(crate) const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

impl GrpcStatus {
    pub(crate) fn of(error: &FrameError) -> Self {
        match error {
            FrameError::Garbled(_) => Self::InvalidArgument,
            FrameError::TooLarge { .. } => Self::ResourceExhausted,
        }
    }

    /// What ends a call. The message must be plain text without line breaks.
    pub(crate) fn trailers(self, message: &str) -> HeaderMap {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from(self as u16));
        if let Ok(message) = HeaderValue::from_str(message)
            && !message.is_empty()
        {
            trailers.insert("grpc-message", message);
        }
        trailers
    }

    /// The answer to a call that is not let in.
    pub(crate) fn refusal(self, message: &str) -> Response<()> {
        let mut response = Response::new(());
        *response.headers_mut() = self.trailers(message);
        response.headers_mut().insert(http::header::CONTENT_TYPE, CONTENT_TYPE);
        response
    }

    /// Whether headers or trailers say that a call failed.
    pub(crate) fn is_failure(headers: &HeaderMap) -> bool {
        text(headers, "grpc-status").is_some_and(|status| status != "0")
    }

    pub(crate) fn is_in(self, headers: &HeaderMap) -> bool {
        text(headers, "grpc-status").is_some_and(|status| status == (self as u16).to_string())
    }

    pub(crate) fn message(headers: &HeaderMap) -> &str {
        text(headers, "grpc-message").unwrap_or("the call")
    }
}
