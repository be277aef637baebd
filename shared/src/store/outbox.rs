//! Reading the outbox: the record of what has to be told.

use crate::{
    domain::{event::OutboxRecord, id::TransferId},
    store::{
        Store, StoreError,
        deadline::Deadline,
        item::read_outbox,
        schema::{Item, Key},
    },
};

impl Store {
    /// What a posting or failure left to be told, if its outbox item is still kept.
    ///
    /// # Errors
    /// [`StoreError`] if there is no answer.
    pub async fn outbox(&self, transfer: &TransferId, deadline: Deadline) -> Result<Option<OutboxRecord>, StoreError> {
        let item = self.get(&self.tables.outbox, &Key::outbox(transfer), deadline).await?;
        item.as_ref().map(read_outbox).transpose()
    }
}

/// Reads an outbox item from the new image of a stream record.
///
/// # Errors
/// [`StoreError::Corrupt`] if it is not one.
pub fn from_image(image: &Item) -> Result<OutboxRecord, StoreError> {
    read_outbox(image)
}
