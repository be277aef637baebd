//! Channels: each provider behind one small trait. A new channel is one file here.

pub mod email;
pub mod push;

use crate::domain::notification::{Channel, Message};
use aws_sdk_ses::{config::http::HttpResponse, error::SdkError};
use futures_util::future::BoxFuture;

/// One notification as a provider gets it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// (event, channel): for providers that take an idempotency key.
    pub idempotency_key: String,
    /// Where to.
    pub address: String,
    /// What.
    pub message: Message,
}

/// What is known when a provider did not say yes.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryFault {
    /// The provider said no: it did not and will not deliver this call's message.
    #[error("the provider refused the message")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// No answer, or one that decides nothing: it may have been accepted.
    #[error("whether the provider accepted the message is not known")]
    Undecided(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A provider of one channel. It must not repeat a send by itself.
pub trait Provider: Send + Sync {
    /// Which channel it serves.
    fn channel(&self) -> Channel;

    /// Hands one message to the provider; `Ok` means that it accepted.
    fn deliver<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), DeliveryFault>>;
}

/// A definite refusal is an answer with a 4xx status and a code; everything else decides nothing.
fn fault<E>(error: SdkError<E, HttpResponse>) -> DeliveryFault
where
    E: std::error::Error + aws_sdk_ses::error::ProvideErrorMetadata + Send + Sync + 'static,
{
    let code = error.as_service_error().and_then(aws_sdk_ses::error::ProvideErrorMetadata::code).is_some();
    let status = error.raw_response().map(|response| response.status().as_u16());
    let refused = code && status.is_some_and(|status| (400..500).contains(&status));
    if refused || matches!(error, SdkError::ConstructionFailure(_)) {
        DeliveryFault::Refused(error.into())
    } else {
        DeliveryFault::Undecided(error.into())
    }
}
