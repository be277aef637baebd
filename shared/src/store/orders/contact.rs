//! Changing how a user is reached, by order.

use super::{Answer, Committed, Facts, Order};
use crate::{
    domain::{id::UserId, notification::Contact},
    store::{
        Store, StoreError,
        deadline::{Backoff, Deadline},
        item::{contact_item, read_contact},
        legs::replace,
        schema::*,
        transact::Leg,
    },
};

impl Store {
    /// Replaces how a user is reached by what `decide` makes of what was read.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the items stayed contended.
    pub async fn order_contact(
        &self,
        user: &UserId,
        decide: impl Fn(Option<&Contact>) -> Contact,
        order: &Order,
        deadline: Deadline,
    ) -> Result<Answer<Contact>, StoreError> {
        let mut backoff = Backoff::until(deadline);
        loop {
            let item = self.get(&self.tables.core, &Key::contact(user), deadline).await?;
            let read = item.as_ref().map(read_contact).transpose()?;
            let changed = decide(read.as_ref());
            if read.as_ref() == Some(&changed) {
                return Ok(Answer::Unchanged(changed));
            }
            let names = [LOCALE, CHANNELS, EMAIL_ADDRESS, PUSH_ADDRESS];
            let put = replace(Leg::Contact, &self.tables.core, contact_item(user, &changed), item.as_ref(), &names)?;
            let before = read.as_ref().map(contact_facts).unwrap_or_default();
            let trail = self.trail_leg(order, user.as_str(), &before, &contact_facts(&changed))?;
            if let Committed::Done = self.commit(vec![put, trail], deadline).await? {
                return Ok(Answer::Done { before: read, after: changed });
            }
            if !backoff.wait().await {
                return Err(StoreError::Contended);
            }
        }
    }
}

fn contact_facts(contact: &Contact) -> Facts {
    let addresses = contact.addresses.iter().map(|(channel, address)| (channel.as_str().to_owned(), address.clone()));
    addresses.chain([("locale".to_owned(), contact.locale.as_str().to_owned())]).collect()
}
