//! The server's front: the connections, the development routes, and everything else to the API's handlers.

use crate::{bank::Bank, dev, gateway, server::stopped};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use shared::{body::BODY_BYTES_MAX, telemetry::chain};
use std::{sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};
use tower::ServiceExt;

/// The largest body that is read. A handler refuses far smaller ones by itself.
const BODY_MAX: usize = 1024 * 1024;
/// After how long it is tried again when no connection can be taken.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Stands on a response that is not to be sent.
#[derive(Debug, Clone, Copy)]
struct LostReply;

/// A response was lost on purpose.
#[derive(Debug, thiserror::Error)]
#[error("the reply was dropped, as a fault told it to be")]
struct ReplyDropped;

/// All routes of the server.
pub(crate) fn router(bank: Arc<Bank>) -> Router {
    dev::routes().fallback(api).with_state(bank)
}

/// Takes connections until `stop`; then lets the running requests end.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stopped(&mut stop) => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, router.clone(), stop.clone()));
            }
            Err(error) => {
                tracing::error!(%error, "no connection can be taken");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    connections.join_all().await;
}

/// Serves one connection. It is closed without an answer where a response carries [`LostReply`].
async fn connection(stream: TcpStream, router: Router, mut stop: watch::Receiver<bool>) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move {
            let response = match router.oneshot(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            match response.extensions().get::<LostReply>() {
                Some(LostReply) => Err(ReplyDropped),
                None => Ok(response),
            }
        }
    });
    let mut serving =
        std::pin::pin!(http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stopped(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = %chain(&error), "a connection ended early");
    }
}

/// Everything that is no development route: the API. The handler runs on its own, so that it comes to its end even if
/// the caller goes away, as it would behind a gateway.
async fn api(State(bank): State<Arc<Bank>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let is_post = parts.method == Method::POST;
    let is_confirm = matches!(gateway::route(&parts.method, parts.uri.path()), Some((gateway::Function::Confirm, ..)));
    // A body beyond all bounds is not kept; one that is just too large for the handler stands in for it.
    let body = to_bytes(body, BODY_MAX).await.map_or_else(|_| vec![0; BODY_BYTES_MAX.saturating_add(1)], Vec::from);
    let request = Request::from_parts(parts, body);
    let running = Arc::clone(&bank);
    let handled = tokio::spawn(async move {
        let _moving = Arc::clone(&running.books).read_owned().await;
        let answer = gateway::dispatch(&running.app, &running.cipher, request).await;
        if is_post {
            running.outbox_changed.notify_one();
        }
        answer
    });
    let answer = match handled.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return failed(&chain(error.as_ref())),
        Err(error) => return failed(&chain(&error)),
    };
    let (parts, body) = answer.into_parts();
    let mut response = Response::from_parts(parts, Body::from(body.to_vec()));
    if is_confirm && response.status() == StatusCode::OK && bank.faults.take_lost_reply() {
        response.extensions_mut().insert(LostReply);
    }
    response
}

fn failed(error: &str) -> Response {
    tracing::error!(alarm = "internal", error, "a handler did not answer");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}
