use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use shared::{app::App, config::Need, queue::SqsQueue, telemetry};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let (_, config, sdk) = App::from_env(&[Need::Queue]).await?;
    let queue = &SqsQueue::new(&sdk, &config.queue_url.unwrap_or_default());
    run(service_fn(move |event: LambdaEvent<relay::StreamEvent>| relay::handle(queue, event.payload))).await
}
