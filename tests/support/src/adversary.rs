//! DynamoDB as it is on its worse days.
