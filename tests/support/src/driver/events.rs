//! The events that AWS hands to functions, and what they answer.

use serde_json::{Map, Value, json};

/// A call of the REST API.
#[derive(Debug, Clone)]
pub struct ApiCall<'a> {
    /// `GET` or `POST`.
    pub method: &'a str,
    /// The route as the template names it, such as `/v1/transfers/{request_id}`.
    pub resource: &'a str,
    /// The values of the route's parameters, in order.
    pub parameters: &'a [(&'a str, &'a str)],
    /// The query's names and values.
    pub query: &'a [(&'a str, &'a str)],
    /// The headers.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body, as it is.
    pub body: &'a str,
}

impl ApiCall<'_> {
    /// The call as the event of a Lambda proxy integration.
    #[must_use]
    pub fn event(&self) -> Value {
        let mut path = self.resource.to_owned();
        for (name, value) in self.parameters {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        json!({
            "resource": self.resource,
            "path": path,
            "httpMethod": self.method,
            "headers": single(self.headers),
            "multiValueHeaders": multiple(self.headers),
            "queryStringParameters": single(self.query),
            "multiValueQueryStringParameters": multiple(self.query),
            "pathParameters": single(self.parameters),
            "stageVariables": null,
            "requestContext": {
                "requestId": shared::random::name(),
                "resourcePath": self.resource,
                "path": path,
                "httpMethod": self.method,
                "stage": "driven",
                "apiId": "driven",
                "identity": {},
            },
            "body": self.body,
            "isBase64Encoded": false,
        })
    }
}

/// The last value of each name.
fn single(pairs: &[(&str, &str)]) -> Map<String, Value> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
}

/// All values of each name.
fn multiple(pairs: &[(&str, &str)]) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, value) in pairs {
        if let Value::Array(values) = all.entry((*name).to_owned()).or_insert_with(|| json!([])) {
            values.push((*value).into());
        }
    }
    all
}

/// What a function behind the API answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiAnswer {
    /// The HTTP status; 0 if the response is none of a proxy integration.
    pub status: u64,
    /// The headers, by their names in lower case; the first value of each.
    pub headers: Map<String, Value>,
    /// The body, if it is JSON.
    pub body: Value,
}

impl ApiAnswer {
    /// Reads the response of a proxy integration.
    #[must_use]
    pub fn read(response: &Value) -> Self {
        let values = response["multiValueHeaders"].as_object().into_iter().flatten();
        let headers = values.map(|(name, values)| (name.to_lowercase(), values[0].clone())).collect();
        let body = response["body"].as_str().and_then(|body| serde_json::from_str(body).ok()).unwrap_or_default();
        Self { status: response["statusCode"].as_u64().unwrap_or_default(), headers, body }
    }

    /// The member `name` of the body as text; empty if it is none.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_default()
    }

    /// Whether it says that it was answered before.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }
}

/// A batch of SQS messages: their ids and bodies.
#[must_use]
pub fn sqs_event<'a>(messages: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let record = |(id, body): (&str, &str)| {
        json!({
            "messageId": id,
            "receiptHandle": id,
            "body": body,
            "attributes": { "ApproximateReceiveCount": "1" },
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:driven",
            "awsRegion": "us-east-1",
        })
    };
    json!({ "Records": messages.into_iter().map(record).collect::<Vec<_>>() })
}

/// A batch of a table's stream: the new images of inserted items, in DynamoDB's JSON, with their sequence numbers.
#[must_use]
pub fn stream_event<'a>(images: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Value {
    let record = |(sequence_number, image): (&str, &Value)| {
        json!({
            "eventID": sequence_number,
            "eventName": "INSERT",
            "eventVersion": "1.1",
            "eventSource": "aws:dynamodb",
            "eventSourceARN": "arn:aws:dynamodb:us-east-1:000000000000:table/driven/stream/1",
            "awsRegion": "us-east-1",
            "dynamodb": {
                "ApproximateCreationDateTime": 1_796_094_000.0,
                "Keys": { "pk": image["pk"], "sk": image["sk"] },
                "NewImage": image,
                "SequenceNumber": sequence_number,
                "SizeBytes": 500,
                "StreamViewType": "NEW_IMAGE",
            },
        })
    };
    json!({ "Records": images.into_iter().map(record).collect::<Vec<_>>() })
}

/// The names of the records that a batch's response says have to come again; `None` if it is no such response, which
/// brings all of them again.
#[must_use]
pub fn batch_failures(response: &Value) -> Option<Vec<String>> {
    let failures = response["batchItemFailures"].as_array()?;
    failures.iter().map(|failure| failure["itemIdentifier"].as_str().map(str::to_owned)).collect()
}
