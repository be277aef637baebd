//! DynamoDB: dynoxide behind its HTTP endpoint on the loopback interface, and the SDK's way to it.

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use dynoxide::{Database, server};
use std::{net::Ipv4Addr, time::Duration};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// How long the endpoint may take to end. By then nobody asks it any more; only spare connections of the SDK, which
/// never carried a request, would keep it waiting.
const STOP_TIME: Duration = Duration::from_millis(200);

/// A running endpoint.
pub(crate) struct Engine {
    /// Where it listens.
    pub(crate) url: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Engine {
    /// Serves `database` on a free port of the loopback interface.
    pub(crate) async fn start(database: Database) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async {
                // A sender that is gone means the same as one that has spoken.
                stopped.await.unwrap_or_default();
            };
            if let Err(error) = server::serve_with_shutdown(listener, database, stopped).await {
                tracing::error!(alarm = "engine", error, "the database's endpoint ended");
            }
        });
        Ok(Self { url, stop, task })
    }

    /// The SDK's configuration for this endpoint. Nothing is read from the environment or from an instance's metadata.
    pub(crate) fn dynamodb(&self) -> aws_sdk_dynamodb::Config {
        aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("local"))
            .credentials_provider(credentials())
            .endpoint_url(&self.url)
            .build()
    }

    /// The SDK's configuration for the streams of this endpoint.
    pub(crate) fn streams(&self) -> aws_sdk_dynamodbstreams::Config {
        aws_sdk_dynamodbstreams::Config::builder()
            .behavior_version(aws_sdk_dynamodbstreams::config::BehaviorVersion::latest())
            .region(aws_sdk_dynamodbstreams::config::Region::from_static("local"))
            .credentials_provider(credentials())
            .endpoint_url(&self.url)
            .build()
    }

    /// Ends the endpoint.
    pub(crate) async fn stop(mut self) {
        if self.stop.send(()).is_err() {
            return;
        }
        if tokio::time::timeout(STOP_TIME, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

/// The endpoint takes any.
fn credentials() -> Credentials {
    Credentials::new("local", "local", None, None, "local")
}
