use lambda_runtime::{Error, LambdaEvent, run, service_fn};
use shared::{
    app::App,
    channel::{Provider, email::Email, push::Push},
    config::Need,
    http::time_of,
    telemetry,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let (app, config, sdk) = App::from_env(&[Need::Sender]).await?;
    let providers: Vec<Box<dyn Provider>> =
        vec![Box::new(Email::new(&sdk, &config.sender.unwrap_or_default())), Box::new(Push::new(&sdk))];
    let (app, providers) = (&app, providers.as_slice());
    run(service_fn(move |event: LambdaEvent<_>| {
        notifier::handle(app, providers, event.payload, time_of(&event.context))
    }))
    .await
}
