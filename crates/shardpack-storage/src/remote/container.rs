//! AWS credentials from the credentials server of a container (ECS, EKS):
//! <https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>.
//!
//! Holds at all times: a token is sent over TLS, to this machine, or to the addresses that AWS reserves for it.

use std::{env, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use reqwest::{
    StatusCode, Url,
    header::{AUTHORIZATION, HeaderValue},
};
use shardpack_format::{Error, Result, regular};

use crate::remote::{
    checked,
    profile::{self, CachedCredential},
    service::Connector,
    web,
};

/// The server of a relative URI.
const SERVER: &str = "http://169.254.170.2";
/// The servers of ECS and EKS: AWS clients use these without TLS.
const SERVERS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];
/// Longest response that is read.
const MAX_BYTES: usize = 1 << 20;
/// Attempts with a server that does not answer, and the wait between two attempts.
const ATTEMPTS: u32 = 3;
const WAIT: Duration = Duration::from_millis(200);

const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
const TOKEN_FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";

/// The server that credentials are requested from.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    url: Url,
    connector: Connector,
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

impl Container {
    /// The server that the environment names, if any.
    pub fn of_environment(connector: &Connector) -> Result<Option<Self>> {
        let relative = variable(RELATIVE).map(|path| (RELATIVE, format!("{SERVER}{path}")));
        let Some((name, text)) = relative.or_else(|| Some((FULL, variable(FULL)?))) else { return Ok(None) };
        let url = Url::parse(&text).map_err(|error| Error::usage(format!("{name} is no URL: {error}")))?;
        if !is_trusted(&url) {
            let error = Error::usage(format!("{name} names a server without TLS that is not of this machine"));
            return Err(error.help("a token would go there as it is: use https://"));
        }
        Ok(Some(Self { url, connector: connector.clone() }))
    }

    /// Requests credentials.
    ///
    /// # Errors
    /// When there are no credentials; the message holds no part of a credential.
    pub async fn ask(&self) -> Result<CachedCredential, String> {
        let token = token()?;
        let mut attempt = 1;
        loop {
            match self.answer(token.as_ref()).await {
                Ok((status, text)) if status.is_success() => return profile::read_given(&text),
                Ok((status, _)) if !status.is_server_error() || attempt == ATTEMPTS => {
                    return Err(format!("the server of the container answers {status}"));
                }
                Err(what) if attempt == ATTEMPTS => return Err(format!("the server of the container: {what}")),
                Ok(_) | Err(_) => tokio::time::sleep(WAIT).await,
            }
            attempt += 1;
        }
    }

    async fn answer(&self, token: Option<&HeaderValue>) -> Result<(StatusCode, Vec<u8>), String> {
        let maker = &self.connector.0;
        let client = maker.client().map_err(|error| error.what())?;
        let mut request = client.get(self.url.clone());
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        let asked = async {
            let mut answer = request.send().await.map_err(|error| web::said(&error))?;
            let mut text = Vec::new();
            while let Some(chunk) = answer.chunk().await.map_err(|error| web::said(&error))? {
                text.extend_from_slice(&chunk);
                if text.len() > MAX_BYTES {
                    return Err("a long answer".to_owned());
                }
            }
            Ok((answer.status(), text))
        };
        tokio::time::timeout(maker.silence(), asked).await.unwrap_or_else(|_| Err("no answer".to_owned()))
    }
}

/// The authorization token. A token file is read for each request, since its token changes.
fn token() -> Result<Option<HeaderValue>, String> {
    let (name, text) = match (variable(TOKEN_FILE).map(PathBuf::from), variable(TOKEN)) {
        (Some(path), _) => {
            let text = regular::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            (TOKEN_FILE, String::from_utf8_lossy(&text).trim_ascii_end().to_owned())
        }
        (None, Some(text)) => (TOKEN, text),
        (None, None) => return Ok(None),
    };
    checked::text(name, &text).map_err(|error| error.what())?;
    let mut value = HeaderValue::from_str(&text).map_err(|_| format!("{name} is no header"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn is_trusted(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_here = host.parse().is_ok_and(|address: IpAddr| address.is_loopback()) || host == "localhost";
    url.scheme() == "https" || is_here || SERVERS.contains(&host)
}

/// A [`Container`] as a credential provider for an S3 client.
pub(crate) fn provider(container: Container) -> object_store::aws::AwsCredentialProvider {
    Arc::new(profile::Asked::new(profile::From::Container(container)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_over_tls_or_stay_near() {
        for (url, is) in [
            ("https://example.org/creds", true),
            ("http://127.0.0.1:1234/creds", true),
            ("http://localhost/creds", true),
            ("http://[::1]/creds", true),
            ("http://169.254.170.23/v1/credentials", true),
            ("http://[fd00:ec2::23]/v1/credentials", true),
            ("http://example.org/creds", false),
            ("http://10.0.0.1/creds", false),
            ("http://169.254.170.2.example.org/", false),
        ] {
            assert_eq!(is_trusted(&Url::parse(url).unwrap()), is, "{url}");
        }
    }
}
