use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use serde_json::Value;
use shared::{app::App, config::Need, http::time_of, queue::SqsQueue, telemetry};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let (app, config, sdk) = App::from_env(&[Need::Queue]).await?;
    let (app, queue) = (&app, &SqsQueue::new(&sdk, &config.queue_url.unwrap_or_default()));
    run(service_fn(move |event: LambdaEvent<Value>| sweeper::handle(app, queue, time_of(&event.context)))).await
}
