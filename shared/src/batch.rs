//! Partial batch responses: one bad record never fails its neighbours, and a record without an id is never "done".

use aws_lambda_events::event::{
    sqs::SqsBatchResponse,
    streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse},
};

/// The answer to SQS that the messages with these ids are to come again. An empty list accepts all.
#[must_use]
pub fn sqs_failures(ids: Vec<String>) -> SqsBatchResponse {
    let mut response = SqsBatchResponse::default();
    for id in ids {
        response.add_failure(id);
    }
    response
}

/// The answer to a stream that everything from this sequence number on is to come again; none accepts all.
#[must_use]
pub fn stream_failure(first_failed: Option<String>) -> DynamoDbEventResponse {
    let mut response = DynamoDbEventResponse::default();
    if let Some(sequence_number) = first_failed {
        let mut failure = DynamoDbBatchItemFailure::default();
        failure.item_identifier = Some(sequence_number);
        response.batch_item_failures.push(failure);
    }
    response
}
