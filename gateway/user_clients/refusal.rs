//! Errors for callers without a usable account at the server, with a link where that helps.

use std::time::Duration;

use lockgate_accounts::{Account, AccountError, AccountState, Holder};
use lockgate_upstream::{ConnectPrompt, Upstream, UpstreamError, UpstreamErrorKind};

use super::UserClients;

impl UserClients {
    /// Returns the error for a holder that has to connect an account, or to grant more scopes.
    pub(super) fn prompt(&self, holder: &Holder, account: Option<&Account>) -> UpstreamError {
        let words = "the caller has to connect an account at the server";
        let mut error = UpstreamErrorKind::NeedsAuth.error(words);
        let state = account.map_or(AccountState::NeedsConnect, Account::state);
        let scopes = account.map(Account::needed_scopes).unwrap_or_default();
        match self.accounts.link(self.slug(), holder) {
            Ok(link) => {
                let state = match state {
                    AccountState::NeedsScope => state,
                    _ => AccountState::NeedsConnect,
                };
                error.connect = Some(Box::new(ConnectPrompt {
                    url: link.url.into(),
                    state: state.as_str(),
                    scopes,
                    expires_at: link.expires_at,
                    waits: self.settings.waits,
                }));
            }
            Err(refused) => error.words = refused.to_string().into(),
        }
        error
    }

    /// Returns the error for a caller without a usable token.
    pub(super) fn refuse(
        &self,
        holder: &Holder,
        account: &Account,
        error: &AccountError,
    ) -> UpstreamError {
        // The gateway's client was refused, and the grant is kept: the operator's to correct.
        if error.is_transient() || *error == AccountError::InvalidClient {
            let words = format!("the token of the caller's account could not be renewed: {error}");
            let failure = UpstreamErrorKind::Overloaded.error(words);
            return failure.retry_after(Duration::from_secs(5));
        }
        if !account.is_connectable() {
            let words = match error {
                AccountError::NoToken | AccountError::OtherIssuer(_) => error.to_string(),
                _ => format!(
                    "the caller's access token could not be exchanged for one of the server: \
                        {error}; this is decided by the administrator of the identity provider"
                ),
            };
            return UpstreamErrorKind::Garbage.error(words);
        }
        if *error == AccountError::Forbidden {
            let words = "the server refuses access with the caller's account";
            return UpstreamErrorKind::Garbage.error(words);
        }
        if *error == AccountError::NeedsScope && !account.may_upgrade() {
            let words = "the server still requires permissions or a sign-in after two \
                authorizations for the same, or ten in all, within an hour; ask its operator";
            return UpstreamErrorKind::Garbage.error(words);
        }
        self.prompt(holder, Some(account))
    }

    /// Returns the error for a holder after the server has refused the account.
    pub(super) async fn refuse_call(&self, holder: &Holder, account: &Account) -> UpstreamError {
        account.share_needs().await;
        self.refuse(holder, account, &account.trouble())
    }
}
