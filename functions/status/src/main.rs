use lambda_http::{Error, run, service_fn};
use shared::{app::App, config::Need, telemetry};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let (app, ..) = App::from_env(&[Need::Identity]).await?;
    let app = &app;
    run(service_fn(move |request| status::handle(app, request))).await
}
