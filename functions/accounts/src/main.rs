use lambda_http::Error;
use shared::{app::App, config::Need, http::run, telemetry};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let (app, ..) = App::from_env(&[Need::Identity]).await?;
    let app = &app;
    run(move |request| accounts::handle(app, request)).await
}
