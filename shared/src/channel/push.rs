//! PUSH by Amazon SNS, to a platform endpoint. Publishing to one takes no idempotency key.

use crate::{
    channel::{Delivery, DeliveryFault, Provider, fault},
    domain::notification::Channel,
};
use aws_config::SdkConfig;
use aws_sdk_sns::{
    Client,
    config::{retry::RetryConfig, timeout::TimeoutConfig},
};
use futures_util::future::BoxFuture;
use std::time::Duration;

/// Amazon SNS.
#[derive(Debug, Clone)]
pub struct Push {
    client: Client,
}

impl Push {
    /// Push messages. The SDK's retries are off: they would send twice.
    #[must_use]
    pub fn new(sdk: &SdkConfig) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(2))
            .operation_attempt_timeout(Duration::from_secs(8))
            .build();
        let config =
            aws_sdk_sns::config::Builder::from(sdk).retry_config(RetryConfig::disabled()).timeout_config(timeouts);
        Self { client: Client::from_conf(config.build()) }
    }
}

impl Provider for Push {
    fn channel(&self) -> Channel {
        Channel::Push
    }

    fn deliver<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), DeliveryFault>> {
        Box::pin(async move {
            let text = format!("{}\n{}", delivery.message.subject, delivery.message.body);
            let send = self.client.publish().target_arn(&delivery.address).message(text).send();
            send.await.map(|_| ()).map_err(fault)
        })
    }
}
