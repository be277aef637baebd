//! The API as the embedded server routes it: every request becomes the event that a REST API of API Gateway sends to its
//! function, and goes through `lambda_http`'s own reading of it, so that a handler sees here what it sees deployed.

use data_encoding::BASE64;
use lambda_http::{
    Body, Error, Request, Response,
    http::{self, HeaderMap, Method},
};
use serde_json::{Map, Value, json};
use shared::{
    app::App,
    cipher::Cipher,
    http::{no_such_route, read_event},
    random,
};

/// A function behind the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// `POST /v1/transfers`
    Request,
    /// `POST …/authorization`
    Authorize,
    /// `POST …/confirmation`
    Confirm,
    /// `POST …/cancellation`
    Cancel,
    /// `GET /v1/transfers…`
    Status,
    /// `POST /v1/totp…`
    Enroll,
    /// `GET /v1/accounts…`
    Accounts,
}

/// A route: its function, its resource path as the template names it, and the name and value of its one parameter.
type Route<'a> = (Function, &'static str, Option<(&'static str, &'a str)>);

/// The route of a method and a path, if there is one.
#[must_use]
pub fn route<'a>(method: &Method, path: &'a str) -> Option<Route<'a>> {
    use Function::{Accounts, Authorize, Cancel, Confirm, Enroll, Request, Status};
    let segments: Vec<&str> = path.strip_prefix("/v1/")?.split('/').collect();
    let (post, get) = (method == Method::POST, method == Method::GET);
    Some(match segments.as_slice() {
        ["transfers"] if post => (Request, "/v1/transfers", None),
        ["transfers"] if get => (Status, "/v1/transfers", None),
        ["transfers", id] if get && !id.is_empty() => (Status, "/v1/transfers/{request_id}", Some(("request_id", *id))),
        ["transfers", id, "authorization"] if post => {
            (Authorize, "/v1/transfers/{request_id}/authorization", Some(("request_id", *id)))
        }
        ["transfers", id, "confirmation"] if post => {
            (Confirm, "/v1/transfers/{request_id}/confirmation", Some(("request_id", *id)))
        }
        ["transfers", id, "cancellation"] if post => {
            (Cancel, "/v1/transfers/{request_id}/cancellation", Some(("request_id", *id)))
        }
        ["totp"] if post => (Enroll, "/v1/totp", None),
        ["totp", "activation"] if post => (Enroll, "/v1/totp/activation", None),
        ["accounts"] if get => (Accounts, "/v1/accounts", None),
        ["accounts", id] if get && !id.is_empty() => (Accounts, "/v1/accounts/{account_id}", Some(("account_id", *id))),
        ["accounts", id, "entries"] if get => {
            (Accounts, "/v1/accounts/{account_id}/entries", Some(("account_id", *id)))
        }
        _ => return None,
    })
}

/// Answers one request of the API with the handler of its route; TR004 where there is none.
///
/// # Errors
/// If the request cannot be made into an event.
pub async fn dispatch(app: &App, cipher: &Cipher, request: http::Request<Vec<u8>>) -> Result<Response<Body>, Error> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let found = route(&parts.method, &path);
    let event = event(&parts, &path, found, &body);
    let request: Request = read_event(&event.to_string())?;
    let Some((function, ..)) = found else { return Ok(no_such_route(&request)) };
    match function {
        Function::Request => request::handle(app, request).await,
        Function::Authorize => authorize::handle(app, cipher, request).await,
        Function::Confirm => confirm::handle(app, request).await,
        Function::Cancel => cancel::handle(app, request).await,
        Function::Status => status::handle(app, request).await,
        Function::Enroll => enroll::handle(app, cipher, request).await,
        Function::Accounts => accounts::handle(app, request).await,
    }
}

/// The event of a REST API with Lambda proxy integration.
fn event(parts: &http::request::Parts, path: &str, route: Option<Route<'_>>, body: &[u8]) -> Value {
    let (resource, parameter) = route.map_or(("/{proxy+}", None), |(_, resource, parameter)| (resource, parameter));
    let query = parts.uri.query().unwrap_or_default();
    let query = form_urlencoded::parse(query.as_bytes()).map(|(name, value)| (name.into_owned(), value.into_owned()));
    let (single_query, multi_query) = values(query);
    let (single_headers, multi_headers) = values(header_pairs(&parts.headers));
    let text = std::str::from_utf8(body);
    json!({
        "resource": resource,
        "path": path,
        "httpMethod": parts.method.as_str(),
        "headers": single_headers,
        "multiValueHeaders": multi_headers,
        "queryStringParameters": single_query,
        "multiValueQueryStringParameters": multi_query,
        "pathParameters": parameter.map(|(name, value)| json!({ name: decoded(value) })),
        "stageVariables": null,
        "requestContext": {
            "requestId": random::name(),
            "resourcePath": resource,
            "path": path,
            "httpMethod": parts.method.as_str(),
            "stage": "local",
            "apiId": "local",
            "identity": {},
        },
        "body": text.map_or_else(|_| BASE64.encode(body), str::to_owned),
        "isBase64Encoded": text.is_err(),
    })
}

fn header_pairs(headers: &HeaderMap) -> impl Iterator<Item = (String, String)> {
    headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
}

/// The last value of each name, and all of them.
fn values(pairs: impl Iterator<Item = (String, String)>) -> (Map<String, Value>, Map<String, Value>) {
    let (mut single, mut multi) = (Map::new(), Map::new());
    for (name, value) in pairs {
        let all = multi.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(all) = all {
            all.push(value.clone().into());
        }
        single.insert(name, value.into());
    }
    (single, multi)
}

/// A path parameter as the gateway hands it on: percent-decoded.
fn decoded(value: &str) -> String {
    // A `+` means itself in a path, and `=` or `&` would end a form's value.
    let as_form = value.replace('+', "%2B").replace('=', "%3D").replace('&', "%26");
    form_urlencoded::parse(as_form.as_bytes()).next().map_or_else(String::new, |(name, _)| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_documented_routes_exist() {
        let found = |method: Method, path| route(&method, path).map(|(function, ..)| function);
        for (method, path, expected) in [
            (Method::POST, "/v1/transfers", Some(Function::Request)),
            (Method::GET, "/v1/transfers", Some(Function::Status)),
            (Method::GET, "/v1/transfers/ti_x", Some(Function::Status)),
            (Method::POST, "/v1/transfers/ti_x/confirmation", Some(Function::Confirm)),
            (Method::POST, "/v1/totp/activation", Some(Function::Enroll)),
            (Method::GET, "/v1/accounts/a/entries", Some(Function::Accounts)),
            (Method::DELETE, "/v1/transfers", None),
            (Method::GET, "/v1/transfers/", None),
            (Method::POST, "/v1/transfers/ti_x", None),
            (Method::GET, "/v2/transfers", None),
            (Method::GET, "/", None),
        ] {
            assert_eq!(found(method.clone(), path), expected, "{method} {path}");
        }
    }

    #[test]
    fn a_path_parameter_is_decoded_once() {
        assert_eq!(decoded("a%2520b"), "a%20b");
        assert_eq!(decoded("a+b"), "a+b");
        assert_eq!(decoded("a%3Db&c"), "a=b&c");
    }
}
