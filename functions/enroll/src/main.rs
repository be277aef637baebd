use lambda_http::Error;
use shared::{app::App, cipher::Cipher, config::Need, http::run, telemetry};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    telemetry::init();
    let (app, config, sdk) = App::from_env(&[Need::Identity, Need::Cipher]).await?;
    let choice = config.cipher.ok_or("there is no cipher in the configuration")?;
    let (app, cipher) = (&app, &Cipher::new(&choice, &sdk)?);
    run(move |request| enroll::handle(app, cipher, request)).await
}
