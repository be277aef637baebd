//! Sealing TOTP secrets, each to its user.

use crate::{config::CipherChoice, domain::id::UserId};
use aws_config::SdkConfig;
use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_sdk_kms::{
    Client,
    config::{retry::RetryConfig, timeout::TimeoutConfig},
    primitives::Blob,
};
use std::time::Duration;
use zeroize::Zeroizing;

/// Why a secret could not be sealed or opened. It never carries the secret.
#[derive(Debug, thiserror::Error)]
pub enum CipherError {
    /// AWS KMS refused or did not answer.
    #[error("AWS KMS did not do it")]
    Kms(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The local key does not fit, or the ciphertext is not this user's.
    #[error("the local key did not do it")]
    Local,
}

/// Seals and opens secrets. Which one is chosen by the configuration; neither falls back to the other.
pub enum Cipher {
    /// A key of AWS KMS; the encryption context names the user.
    Kms(Client, String),
    /// A local AES-256-GCM key; the additional data names the user.
    Local(Box<RandomizedNonceKey>),
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kms(..) => "Cipher::Kms",
            Self::Local(_) => "Cipher::Local",
        })
    }
}

const CONTEXT_USER: &str = "furikomi:user";
const NONCE_BYTES: usize = 12;

impl Cipher {
    /// The cipher of `choice`.
    ///
    /// # Errors
    /// [`CipherError::Local`] if the local key is not usable.
    pub fn new(choice: &CipherChoice, sdk: &SdkConfig) -> Result<Self, CipherError> {
        match choice {
            CipherChoice::Kms(key) => {
                let timeouts = TimeoutConfig::builder()
                    .connect_timeout(Duration::from_secs(1))
                    .operation_attempt_timeout(Duration::from_millis(1500))
                    .operation_timeout(Duration::from_secs(4))
                    .build();
                let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(25));
                let config = aws_sdk_kms::config::Builder::from(sdk).timeout_config(timeouts).retry_config(retries);
                Ok(Self::Kms(Client::from_conf(config.build()), key.clone()))
            }
            CipherChoice::Local(key) => Self::local(key),
        }
    }

    /// The cipher of a local key.
    ///
    /// # Errors
    /// [`CipherError::Local`] if the key is not usable.
    pub fn local(key: &[u8; 32]) -> Result<Self, CipherError> {
        let key = RandomizedNonceKey::new(&AES_256_GCM, key).map_err(|_| CipherError::Local)?;
        Ok(Self::Local(Box::new(key)))
    }

    /// Seals `secret` to `user`.
    ///
    /// # Errors
    /// [`CipherError`].
    pub async fn seal(&self, user: &UserId, secret: &[u8]) -> Result<Vec<u8>, CipherError> {
        match self {
            Self::Kms(client, key) => {
                let send = client
                    .encrypt()
                    .key_id(key)
                    .plaintext(Blob::new(secret))
                    .encryption_context(CONTEXT_USER, user.as_str());
                let output = send.send().await.map_err(|error| CipherError::Kms(error.into()))?;
                let sealed = output.ciphertext_blob.ok_or_else(|| CipherError::Kms("no ciphertext".into()))?;
                Ok(sealed.into_inner())
            }
            Self::Local(key) => {
                let mut sealed = secret.to_vec();
                let nonce = key
                    .seal_in_place_append_tag(Aad::from(user.as_str()), &mut sealed)
                    .map_err(|_| CipherError::Local)?;
                sealed.extend_from_slice(nonce.as_ref());
                Ok(sealed)
            }
        }
    }

    /// Opens what was sealed to `user`.
    ///
    /// # Errors
    /// [`CipherError`], also if it was sealed to somebody else.
    pub async fn open(&self, user: &UserId, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, CipherError> {
        match self {
            Self::Kms(client, key) => {
                let send = client
                    .decrypt()
                    .key_id(key)
                    .ciphertext_blob(Blob::new(sealed))
                    .encryption_context(CONTEXT_USER, user.as_str());
                let output = send.send().await.map_err(|error| CipherError::Kms(error.into()))?;
                let secret = output.plaintext.ok_or_else(|| CipherError::Kms("no plaintext".into()))?;
                Ok(Zeroizing::new(secret.into_inner()))
            }
            Self::Local(key) => {
                let at = sealed.len().checked_sub(NONCE_BYTES).ok_or(CipherError::Local)?;
                let (ciphertext, nonce) = sealed.split_at(at);
                let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| CipherError::Local)?;
                let mut secret = Zeroizing::new(ciphertext.to_vec());
                let length = key
                    .open_in_place(nonce, Aad::from(user.as_str()), &mut secret)
                    .map_err(|_| CipherError::Local)?
                    .len();
                secret.truncate(length);
                Ok(secret)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_secret_opens_for_its_user_and_key_alone() -> Result<(), Box<dyn std::error::Error>> {
        let (cipher, other) = (Cipher::local(&[7; 32])?, Cipher::local(&[8; 32])?);
        let (aoi, ren) = (UserId::parse("aoi")?, UserId::parse("ren")?);
        let sealed = cipher.seal(&aoi, b"12345678901234567890").await?;
        assert_eq!(cipher.open(&aoi, &sealed).await?.as_slice(), b"12345678901234567890");
        assert!(cipher.open(&ren, &sealed).await.is_err());
        assert!(other.open(&aoi, &sealed).await.is_err());
        assert!(cipher.open(&aoi, &sealed[1..]).await.is_err());
        assert!(cipher.open(&aoi, b"short").await.is_err());
        assert_ne!(sealed, cipher.seal(&aoi, b"12345678901234567890").await?);
        assert!(!sealed.windows(20).any(|window| window == b"12345678901234567890"));
        Ok(())
    }
}
