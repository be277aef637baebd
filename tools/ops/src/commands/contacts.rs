//! `ops contacts`.

use crate::{
    answer::{Answer, Fault},
    cli::{Contacts, SetContact},
    ops::Ops,
};
use serde_json::{Value, json};
use shared::{
    domain::{
        id::UserId,
        notification::{Channel, Contact, Locale},
    },
    store::orders,
};

/// Does what `command` says.
///
/// # Errors
/// [`Fault`].
pub async fn run(ops: &Ops, command: Contacts) -> Result<Answer, Fault> {
    match command {
        Contacts::Show { user } => {
            let contact = ops.store.contact(&user, ops.deadline()).await?;
            let contact = contact.ok_or_else(|| Fault::Refused(format!("there is no contact of {user}")))?;
            Ok(Answer::good(contact_json(&user, &contact), contact_text(&user, &contact)))
        }
        Contacts::Set(set) => self::set(ops, set).await,
    }
}

async fn set(ops: &Ops, set: SetContact) -> Result<Answer, Fault> {
    let order = ops.order("contacts set")?;
    let decide = |read: Option<&Contact>| changed(read, &set);
    let (contact, has_changed) = match ops.store.order_contact(&set.user, decide, &order, ops.deadline()).await? {
        orders::Answer::Done { after, .. } => (after, true),
        orders::Answer::Unchanged(contact) => (contact, false),
        orders::Answer::Refused(why) => return Err(Fault::Refused(why)),
        orders::Answer::Missing => return Err(Fault::Refused(format!("there is no contact of {}", set.user))),
    };
    let said = if has_changed { "done" } else { "unchanged: it was so already" };
    let json = json!({ "changed": has_changed, "contact": contact_json(&set.user, &contact) });
    Ok(Answer::good(json, format!("{said}\n{}", contact_text(&set.user, &contact))))
}

fn changed(read: Option<&Contact>, set: &SetContact) -> Contact {
    let mut addresses = Vec::new();
    for channel in Channel::ALL {
        let (new, is_off) = match channel {
            Channel::Email => (&set.email, set.no_email),
            Channel::Push => (&set.push, set.no_push),
        };
        let old =
            || read.and_then(|read| read.addresses.iter().find(|(of, _)| of == channel)).map(|(_, at)| at.clone());
        if let Some(address) = new.clone().or_else(old).filter(|_| !is_off) {
            addresses.push((*channel, address));
        }
    }
    let locale = set.locale.or(read.map(|read| read.locale)).unwrap_or(Locale::Ja);
    Contact { locale, addresses }
}

fn contact_json(user: &UserId, contact: &Contact) -> Value {
    let channels = contact.addresses.iter().map(|(channel, at)| (channel.as_str().to_owned(), json!(at)));
    json!({
        "user_id": user.as_str(),
        "locale": contact.locale.as_str(),
        "channels": channels.collect::<serde_json::Map<_, _>>(),
    })
}

fn contact_text(user: &UserId, contact: &Contact) -> String {
    let mut lines = vec![("user", user.to_string()), ("locale", contact.locale.as_str().to_owned())];
    lines.extend(contact.addresses.iter().map(|(channel, at)| (channel.as_str(), at.clone())));
    if contact.addresses.is_empty() {
        lines.push(("channels", "none: this user is told nothing".to_owned()));
    }
    lines.into_iter().map(|(name, value)| format!("{name:<14}{value}\n")).collect()
}
