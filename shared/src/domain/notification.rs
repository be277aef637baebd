//! Notifications: one item per (event, channel), its states, and what it says.

use crate::domain::{
    account::stored_words,
    error::Refusal,
    event::{Event, EventKind},
};

/// Definite refusals of a provider after which a notification is given up.
pub const ATTEMPTS_MAX: i64 = 5;
/// How long a claim holds, in seconds: longer than a notifier lives, and not longer than the queue hides a message.
pub const LEASE_S: i64 = 60;
/// How old a PENDING notification is, in seconds, before the sweeper puts its event on the queue again: longer than a
/// message needs to be received five times.
pub const PENDING_OLD_S: i64 = 30 * 60;

stored_words!(
    /// A way to reach a recipient.
    Channel {
        /// Mail.
        Email = "EMAIL",
        /// A push message to a phone.
        Push = "PUSH",
    }
);

stored_words!(
    /// How far a notification has come.
    NotificationState {
        /// To be sent.
        Pending = "PENDING",
        /// Claimed by one notifier until the lease ends.
        Sending = "SENDING",
        /// The provider accepted it.
        Sent = "SENT",
        /// Refused for good.
        Failed = "FAILED",
        /// Perhaps accepted: never sent again by itself.
        Unknown = "UNKNOWN",
    }
);

impl NotificationState {
    /// Whether nothing more happens to it without an operator.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Sent | Self::Failed | Self::Unknown)
    }
}

stored_words!(
    /// The language of a recipient's texts.
    Locale {
        /// Japanese.
        Ja = "ja",
        /// English.
        En = "en",
    }
);

/// How a user is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// The language of texts.
    pub locale: Locale,
    /// The channels that the user wants, with the address on each.
    pub addresses: Vec<(Channel, String)>,
}

/// What a notification says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// One line.
    pub subject: String,
    /// The text.
    pub body: String,
}

/// The text of `event` in the recipient's language, with the account masked.
#[must_use]
pub fn render(event: &Event, locale: Locale) -> Message {
    let amount = event.currency.format(event.amount.minor());
    let (account, other) = (&event.account_masked, &event.counterparty_name);
    let transfer = &event.transfer;
    let (subject, lead) = match (locale, event.kind) {
        (Locale::Ja, EventKind::Sent) => {
            ("お振込が完了しました", format!("口座 {account} から {other} 様へ {amount} を振り込みました。"))
        }
        (Locale::Ja, EventKind::Received) => {
            ("お振込を受け取りました", format!("口座 {account} に {other} 様から {amount} の入金がありました。"))
        }
        (Locale::Ja, EventKind::Failed) => (
            "お振込ができませんでした",
            format!("口座 {account} から {other} 様への {amount} の振込はできませんでした。お金は動いていません。"),
        ),
        (Locale::En, EventKind::Sent) => {
            ("Transfer completed", format!("You sent {amount} to {other} from account {account}."))
        }
        (Locale::En, EventKind::Received) => {
            ("Money received", format!("You received {amount} from {other} in account {account}."))
        }
        (Locale::En, EventKind::Failed) => (
            "Transfer not made",
            format!("Your transfer of {amount} to {other} from account {account} was not made. No money moved."),
        ),
    };
    let mut body = lead;
    if let Some(refusal) = event.failure_code {
        body.push_str(&reason(refusal, locale));
    }
    body.push_str(&match locale {
        Locale::Ja => format!("\n取引番号: {transfer}"),
        Locale::En => format!("\nReference: {transfer}"),
    });
    Message { subject: subject.to_owned(), body }
}

fn reason(refusal: Refusal, locale: Locale) -> String {
    match locale {
        Locale::En => format!(" Reason: {refusal} ({}).", refusal.code()),
        Locale::Ja => format!("理由: {} ({})。", reason_ja(refusal), refusal.code()),
    }
}

const fn reason_ja(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::SourceUnavailable => "出金口座をご利用いただけません",
        Refusal::IdentityNotVerified => "本人確認が完了していません",
        Refusal::SameAccount => "出金口座と入金口座が同じです",
        Refusal::DestinationUnavailable => "入金口座をご利用いただけません",
        Refusal::CurrencyMismatch => "通貨が一致しません",
        Refusal::PerTransferLimit => "1回あたりの限度額を超えています",
        Refusal::InsufficientFunds => "残高が不足しています",
        Refusal::DailyAmount => "1日の限度額を超えています",
        Refusal::DailyCount => "1日の回数の上限に達しています",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::OutboxRecord;
    use crate::domain::{
        id::{AccountId, TransferId, UserId},
        money::{Amount, Currency},
    };

    fn record(refusal: Option<Refusal>) -> Result<OutboxRecord, Box<dyn std::error::Error>> {
        Ok(OutboxRecord {
            transfer: TransferId::parse("tr_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")?,
            at: "2026-12-01T00:00:00Z".parse()?,
            amount: Amount::parse(40_000)?,
            currency: Currency::parse("JPY")?,
            payer: UserId::parse("aoi")?,
            source: AccountId::parse("ac_11111111")?,
            payer_name: "Aoi".to_owned(),
            payee: UserId::parse("ren")?,
            destination: AccountId::parse("ac_22222222")?,
            payee_name: "Ren".to_owned(),
            refusal,
        })
    }

    #[test]
    fn every_event_reads_in_both_languages_with_the_account_masked() -> Result<(), Box<dyn std::error::Error>> {
        let events = [record(None)?.events(), record(Some(Refusal::InsufficientFunds))?.events()].concat();
        for event in &events {
            for locale in Locale::ALL {
                let message = render(event, *locale);
                assert!(message.body.contains("JPY 40,000"), "{message:?}");
                assert!(message.body.contains(&event.account_masked) && !message.body.contains("ac_"), "{message:?}");
                assert!(message.body.contains("tr_aaaa"), "{message:?}");
                assert_eq!(message.body.contains("TR008"), event.failure_code.is_some(), "{message:?}");
            }
        }
        Ok(())
    }
}
