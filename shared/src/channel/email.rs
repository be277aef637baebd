//! EMAIL by Amazon SES. Its API takes no idempotency key, so an undecided send is never repeated.

use crate::{
    channel::{Delivery, DeliveryFault, Provider, fault},
    domain::notification::Channel,
};
use aws_config::SdkConfig;
use aws_sdk_ses::{
    Client,
    config::{retry::RetryConfig, timeout::TimeoutConfig},
    types::{Body, Content, Destination, Message},
};
use futures_util::future::BoxFuture;
use std::time::Duration;

/// Amazon SES with a sender's address.
#[derive(Debug, Clone)]
pub struct Email {
    client: Client,
    sender: String,
}

impl Email {
    /// Mail from `sender`. The SDK's retries are off: they would send twice.
    #[must_use]
    pub fn new(sdk: &SdkConfig, sender: &str) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(2))
            .operation_attempt_timeout(Duration::from_secs(8))
            .build();
        let config =
            aws_sdk_ses::config::Builder::from(sdk).retry_config(RetryConfig::disabled()).timeout_config(timeouts);
        Self { client: Client::from_conf(config.build()), sender: sender.to_owned() }
    }
}

fn content(text: &str) -> Result<Content, DeliveryFault> {
    Content::builder().data(text).charset("UTF-8").build().map_err(|error| DeliveryFault::Refused(error.into()))
}

impl Provider for Email {
    fn channel(&self) -> Channel {
        Channel::Email
    }

    fn deliver<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), DeliveryFault>> {
        Box::pin(async move {
            let message = Message::builder()
                .subject(content(&delivery.message.subject)?)
                .body(Body::builder().text(content(&delivery.message.body)?).build())
                .build();
            let send = self
                .client
                .send_email()
                .source(&self.sender)
                .destination(Destination::builder().to_addresses(&delivery.address).build())
                .message(message)
                .send();
            send.await.map(|_| ()).map_err(fault)
        })
    }
}
