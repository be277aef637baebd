//! Reading instructions and what goes with them.

use crate::{
    domain::{
        account::Account,
        id::{AccountId, RequestId, UserId},
        instruction::Instruction,
        invariants::Journal,
    },
    store::{
        Store, StoreError,
        deadline::{Backoff, Deadline},
        item::{read_account, read_instruction, read_journal},
        legs::malformed,
        schema::{Item, Key, PK, SK},
        totp::{TotpRecord, read_totp},
        transact::read_error,
    },
};
use aws_sdk_dynamodb::types::KeysAndAttributes;
use std::collections::HashMap;

/// What admission looks at: the instruction, if the key is known already, and the two accounts, as far as they exist.
#[derive(Debug)]
pub struct AdmissionView {
    /// Read strongly.
    pub instruction: Option<Instruction>,
    /// Read as it was a moment ago; posting decides on the state that it posts to.
    pub source: Option<Account>,
    /// Likewise.
    pub destination: Option<Account>,
}

/// Keys of one table to read, and whether strongly.
struct Wanted<'a> {
    table: &'a str,
    keys: Vec<Key>,
    consistent: bool,
}

impl Store {
    /// The instruction, read strongly.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn instruction(
        &self,
        user: &UserId,
        id: &RequestId,
        deadline: Deadline,
    ) -> Result<Option<Instruction>, StoreError> {
        let item = self.get(&self.tables.core, &Key::instruction(user, id), deadline).await?;
        item.as_ref().map(read_instruction).transpose()
    }

    /// One batch read of an instruction, strongly, and the two accounts that it would move money between.
    ///
    /// # Errors
    /// [`StoreError`] if there is no whole answer.
    pub async fn admission_view(
        &self,
        user: &UserId,
        id: &RequestId,
        (source, destination): (&AccountId, &AccountId),
        deadline: Deadline,
    ) -> Result<AdmissionView, StoreError> {
        let (instruction, debit, credit) =
            (Key::instruction(user, id), Key::account(source), Key::account(destination));
        let mut accounts = vec![debit.clone(), credit.clone()];
        accounts.dedup(); // a batch may not name one key twice
        let items = self
            .batch_get(
                &[
                    Wanted { table: &self.tables.core, keys: vec![instruction.clone()], consistent: true },
                    Wanted { table: &self.tables.ledger, keys: accounts, consistent: false },
                ],
                deadline,
            )
            .await?;
        Ok(AdmissionView {
            instruction: items.get(&instruction).map(read_instruction).transpose()?,
            source: items.get(&debit).map(read_account).transpose()?,
            destination: items.get(&credit).map(read_account).transpose()?,
        })
    }

    /// One batch read of an instruction and its owner's TOTP record, both strongly.
    ///
    /// # Errors
    /// [`StoreError`] if there is no whole answer.
    pub async fn authorization_view(
        &self,
        user: &UserId,
        id: &RequestId,
        deadline: Deadline,
    ) -> Result<(Option<Instruction>, Option<TotpRecord>), StoreError> {
        let (instruction, totp) = (Key::instruction(user, id), Key::totp(user));
        let wanted =
            Wanted { table: &self.tables.core, keys: vec![instruction.clone(), totp.clone()], consistent: true };
        let items = self.batch_get(&[wanted], deadline).await?;
        Ok((items.get(&instruction).map(read_instruction).transpose()?, items.get(&totp).map(read_totp).transpose()?))
    }

    /// One batch read of an instruction and its journal, both strongly. The two may be of different moments.
    ///
    /// # Errors
    /// [`StoreError`] if there is no whole answer.
    pub async fn status_view(
        &self,
        user: &UserId,
        id: &RequestId,
        deadline: Deadline,
    ) -> Result<(Option<Instruction>, Option<Journal>), StoreError> {
        let (instruction, journal) = (Key::instruction(user, id), Key::journal(&id.transfer_id()));
        let items = self
            .batch_get(
                &[
                    Wanted { table: &self.tables.core, keys: vec![instruction.clone()], consistent: true },
                    Wanted { table: &self.tables.ledger, keys: vec![journal.clone()], consistent: true },
                ],
                deadline,
            )
            .await?;
        Ok((
            items.get(&instruction).map(read_instruction).transpose()?,
            items.get(&journal).map(read_journal).transpose()?,
        ))
    }

    /// One strong read.
    pub(crate) async fn get(&self, table: &str, key: &Key, deadline: Deadline) -> Result<Option<Item>, StoreError> {
        let send = self.reads.get_item().table_name(table).set_key(Some(key.to_item())).consistent_read(true).send();
        let output = in_time(deadline, send).await?.map_err(read_error)?;
        Ok(output.item)
    }

    /// Reads every key, again and again as long as DynamoDB leaves some unprocessed: a key that was not read is never
    /// taken for one that is not there.
    async fn batch_get(&self, wanted: &[Wanted<'_>], deadline: Deadline) -> Result<HashMap<Key, Item>, StoreError> {
        let mut requests = HashMap::new();
        for want in wanted {
            let request = KeysAndAttributes::builder()
                .consistent_read(want.consistent)
                .set_keys(Some(want.keys.iter().map(Key::to_item).collect()))
                .build()
                .map_err(malformed)?;
            requests.insert(want.table.to_owned(), request);
        }
        let mut backoff = Backoff::until(deadline);
        let mut found = HashMap::new();
        loop {
            let send = self.reads.batch_get_item().set_request_items(Some(requests)).send();
            let output = in_time(deadline, send).await?.map_err(read_error)?;
            for item in output.responses.unwrap_or_default().into_values().flatten() {
                let part = |name| item.get(name).and_then(|v| v.as_s().ok()).cloned().unwrap_or_default();
                found.insert(Key { pk: part(PK), sk: part(SK) }, item);
            }
            requests = output.unprocessed_keys.unwrap_or_default();
            if requests.is_empty() {
                return Ok(found);
            }
            if !backoff.wait().await {
                return Err(StoreError::Unavailable("keys stayed unprocessed until the time ran out".into()));
            }
        }
    }

    pub(crate) async fn accounts_by_id(
        &self,
        ids: &[AccountId],
        deadline: Deadline,
    ) -> Result<Vec<Account>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<Key> = ids.iter().map(Key::account).collect();
        let wanted = Wanted { table: &self.tables.ledger, keys: keys.clone(), consistent: true };
        let items = self.batch_get(&[wanted], deadline).await?;
        keys.iter().filter_map(|key| items.get(key)).map(read_account).collect()
    }
}

/// What `future` gives, unless the deadline comes first.
pub(crate) async fn in_time<T>(deadline: Deadline, future: impl Future<Output = T>) -> Result<T, StoreError> {
    let answer = deadline.run(future).await;
    answer.ok_or_else(|| StoreError::Unavailable("the deadline came before the answer".into()))
}
