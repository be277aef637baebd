use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use shared::{
    app::sdk_config,
    config::{Config, Need},
    queue::SqsQueue,
    telemetry,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    // The stream brings the items: no table is read, so neither a connection to one nor a permission is needed.
    let config = Config::from_env(&[Need::Queue])?;
    let queue = &SqsQueue::new(&sdk_config().await, &config.queue_url.unwrap_or_default());
    run(service_fn(move |event: LambdaEvent<relay::StreamEvent>| relay::handle(queue, event.payload))).await
}
