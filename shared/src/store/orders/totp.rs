//! Taking a user's TOTP secret out of force by order, or putting one in force. The failure counter, the lock and the last
//! accepted step stay whatever happens to the secret: no order gives anybody more guesses.

use super::{Answer, Committed, Facts, Order, facts};
use crate::{
    domain::id::UserId,
    store::{
        Store, StoreError,
        deadline::{Backoff, Deadline},
        item::{bytes, text},
        legs::update,
        schema::*,
        totp::{Sealed, TotpRecord},
        transact::Leg,
    },
};

impl Store {
    /// Removes the active and the pending secret: the user has to enrol anew.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the items stayed contended.
    pub async fn order_totp_reset(
        &self,
        user: &UserId,
        order: &Order,
        deadline: Deadline,
    ) -> Result<Answer<TotpRecord>, StoreError> {
        let mut backoff = Backoff::until(deadline);
        loop {
            let Some(read) = self.totp(user, deadline).await? else { return Ok(Answer::Missing) };
            if read.active.is_none() && read.pending.is_none() {
                return Ok(Answer::Unchanged(read));
            }
            let after = TotpRecord { active: None, pending: None, activated_step: None, ..read.clone() };
            let mut conditions = Vec::new();
            let mut values = Values::new();
            for (name, value, secret) in
                [(SECRET_VERSION, ":active", &read.active), (PENDING_VERSION, ":pending", &read.pending)]
            {
                match secret {
                    Some(sealed) => {
                        conditions.push(format!("{name} = {value}"));
                        values.insert(value.to_owned(), text(&sealed.version));
                    }
                    None => conditions.push(format!("attribute_not_exists({name})")),
                }
            }
            let reset = update(Leg::Totp, &self.tables.core, &Key::totp(user), |leg| {
                leg.update_expression(format!(
                    "REMOVE {SECRET}, {SECRET_VERSION}, {PENDING}, {PENDING_VERSION}, {ACTIVATED_STEP}"
                ))
                .condition_expression(conditions.join(" AND "))
                .set_expression_attribute_values(Some(values))
            })?;
            let trail = self.trail_leg(order, user.as_str(), &totp_facts(&read), &totp_facts(&after))?;
            if let Committed::Done = self.commit(vec![reset, trail], deadline).await? {
                return Ok(Answer::Done { before: Some(read), after });
            }
            if !backoff.wait().await {
                return Err(StoreError::Contended);
            }
        }
    }

    /// Puts `secret` in force where none is, and drops a pending one.
    ///
    /// # Errors
    /// [`StoreError`] if the outcome is not known or the items stayed contended.
    pub async fn order_totp_enrolment(
        &self,
        user: &UserId,
        secret: &Sealed,
        order: &Order,
        deadline: Deadline,
    ) -> Result<Answer<()>, StoreError> {
        let enrolment = update(Leg::Totp, &self.tables.core, &Key::totp(user), |leg| {
            leg.update_expression(format!(
                "SET {SECRET} = :sealed, {SECRET_VERSION} = :version \
                 REMOVE {PENDING}, {PENDING_VERSION}, {ACTIVATED_STEP}"
            ))
            .condition_expression(format!("attribute_not_exists({SECRET})"))
            .expression_attribute_values(":sealed", bytes(&secret.ciphertext))
            .expression_attribute_values(":version", text(&secret.version))
        })?;
        let after = facts([("active", true.to_string())]);
        let trail = self.trail_leg(order, user.as_str(), &Facts::new(), &after)?;
        Ok(match self.commit(vec![enrolment, trail], deadline).await? {
            Committed::Done => Answer::Done { before: None, after: () },
            Committed::Refused(_) => Answer::Refused(format!("{user} has an active secret: reset it first")),
        })
    }
}

type Values = std::collections::HashMap<String, aws_sdk_dynamodb::types::AttributeValue>;

fn totp_facts(record: &TotpRecord) -> Facts {
    facts([("active", record.active.is_some().to_string()), ("pending", record.pending.is_some().to_string())])
}
