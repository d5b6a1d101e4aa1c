//! AWS credentials from profiles in `~/.aws` (keys, or a program that prints them), and credentials that are renewed
//! before they expire.

use std::{
    collections::BTreeMap,
    env,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use chrono::DateTime;
use object_store::{
    CredentialProvider, StaticCredentialProvider,
    aws::{AwsCredential, AwsCredentialProvider},
};
use serde::Deserialize;
use shardpack_format::{Error, Result, regular};
use shardpack_runtime::wall_clock;

use crate::remote::{checked, container::Container};

/// Credentials are renewed this long before they expire.
const BEFORE_END: Duration = Duration::from_secs(5 * 60);

/// The values of a profile.
pub(crate) struct Profile {
    pub region: Option<String>,
    pub endpoint: Option<String>,
    pub credentials: Result<Option<AwsCredentialProvider>>,
    /// Places that were searched, in words.
    pub said: String,
}

pub(crate) type Values = BTreeMap<String, String>;

/// Values of a profile that are used unchanged.
const USED: [&str; 5] = ["region", "endpoint_url", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"];

/// Reads the profile `given`, or the profile from the environment, or the default profile, which may be missing.
pub(crate) fn read(given: Option<&str>) -> Result<Profile> {
    let of_env = || ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"].iter().find_map(|name| env::var(name).ok());
    let named = given.map(str::to_owned).or_else(of_env).filter(|name| !name.is_empty());
    let name = named.as_deref().unwrap_or("default");
    let mut values = Values::new();
    let mut files = Vec::new();
    // Sections of the configuration file are called "profile NAME"; the credentials file overrides it.
    for (variable, file, prefix) in
        [("AWS_CONFIG_FILE", "config", "profile "), ("AWS_SHARED_CREDENTIALS_FILE", "credentials", "")]
    {
        let below = |home: PathBuf| home.join(".aws").join(file);
        let Some(path) = env::var_os(variable).map(PathBuf::from).or_else(|| env::home_dir().map(below)) else {
            continue;
        };
        files.push(shardpack_format::text::path(&path).to_string());
        let text = match regular::read(&path) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("cannot read", error).in_file(path)),
        };
        let is_ours = |section: &str| {
            section == name && (prefix.is_empty() || name == "default")
                || section.strip_prefix(prefix).is_some_and(|rest| !prefix.is_empty() && rest.trim() == name)
        };
        values.extend(section(&text, is_ours));
    }
    let said = format!("the profile {name} in {}", files.join(" and "));
    if values.is_empty() && named.is_some() {
        return Err(Error::usage(format!("there is no {said}")).help("AWS_PROFILE or --store profile=NAME names it"));
    }
    let place = format!("profile {name}");
    for (key, value) in
        USED.iter().filter_map(|key| Some((*key, values.get(*key)?))).filter(|(_, value)| !value.is_empty())
    {
        checked::value(key, key, value).map_err(|error| error.in_file(&place))?;
    }
    let credentials = credentials(&values).map_err(|error| error.in_file(&place));
    let mut value = |name: &str| values.remove(name).filter(|value| !value.is_empty());
    Ok(Profile { region: value("region"), endpoint: value("endpoint_url"), credentials, said })
}

/// Names and values of a section of an INI file.
pub(crate) fn section(text: &str, is_ours: impl Fn(&str) -> bool) -> Values {
    let mut values = Values::new();
    let mut is_in = false;
    for line in text.lines() {
        // Indented lines are nested values of the line above; no value used here is nested.
        if line.starts_with(['#', ';', ' ', '\t']) {
            continue;
        }
        if let Some(name) = line.trim_end().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_in = is_ours(name.trim());
        } else if let Some((name, value)) = line.split_once('=')
            && is_in
        {
            values.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
    values
}

pub(crate) fn credentials(values: &Values) -> Result<Option<AwsCredentialProvider>> {
    let value = |name: &str| values.get(name).filter(|value| !value.is_empty()).cloned();
    if let (Some(key_id), Some(secret_key)) = (value("aws_access_key_id"), value("aws_secret_access_key")) {
        let credential = AwsCredential { key_id, secret_key, token: value("aws_session_token") };
        return Ok(Some(Arc::new(StaticCredentialProvider::new(credential))));
    }
    if let Some(command) = value("credential_process") {
        return Ok(Some(Arc::new(Asked::new(From::Process(command)))));
    }
    let unread = ["sso_session", "sso_start_url", "role_arn", "web_identity_token_file"];
    match unread.iter().find(|name| values.contains_key(**name)) {
        None => Ok(None),
        Some(name) => Err(Error::usage(format!("{name} is not read here")).help(
            "a profile with `credential_process = aws configure export-credentials --profile NAME --format process` \
             supplies the credentials that the AWS tools find",
        )),
    }
}

/// Source of credentials that expire.
#[derive(Debug)]
pub(crate) enum From {
    /// A program that prints them.
    Process(String),
    /// A credentials server of a container.
    Container(Container),
}

/// Credentials that are renewed before they expire.
#[derive(Debug)]
pub(crate) struct Asked {
    from: From,
    kept: tokio::sync::Mutex<Option<CachedCredential>>,
}

impl Asked {
    pub fn new(from: From) -> Self {
        Self { from, kept: tokio::sync::Mutex::default() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct CachedCredential {
    credential: Arc<AwsCredential>,
    end: Option<SystemTime>,
}

/// Output of the program: <https://docs.aws.amazon.com/sdkref/latest/guide/feature-process-credentials.html>.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    version: u64,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<String>,
}

#[async_trait]
impl CredentialProvider for Asked {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut kept = self.kept.lock().await;
        if let Some(CachedCredential { credential, end }) = &*kept
            && end.is_none_or(|end| wall_clock() + BEFORE_END < end)
        {
            return Ok(Arc::clone(credential));
        }
        let made = match &self.from {
            From::Process(command) => {
                let command = command.clone();
                let run = tokio::task::spawn_blocking(move || run(&command)).await;
                let made = run.map_err(|error| error.to_string()).and_then(|made| made);
                made.map_err(|what| format!("credential_process: {what}"))
            }
            From::Container(container) => container.ask().await,
        };
        let made = made.map_err(|what| object_store::Error::Generic { store: "S3", source: what.into() })?;
        let credential = Arc::clone(&made.credential);
        *kept = Some(made);
        Ok(credential)
    }
}

/// Runs the program. Its output may be a secret and appears in no message.
fn run(command: &str) -> Result<CachedCredential, String> {
    let output = Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("sh: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        return Err(format!("{}: {last}", output.status));
    }
    read_printed(&output.stdout)
}

pub(crate) fn read_printed(text: &[u8]) -> Result<CachedCredential, String> {
    let wrong = |what: String| format!("prints no credentials of version 1: {what}");
    // Only the position of the error: the error text quotes the output.
    let place = |error: serde_json::Error| wrong(format!("line {}, column {}", error.line(), error.column()));
    let printed: Printed = serde_json::from_slice(text).map_err(place)?;
    if printed.version != 1 {
        return Err(wrong(format!("version {}", printed.version)));
    }
    let end = printed.expiration.map(|text| {
        DateTime::parse_from_rfc3339(&text).map(SystemTime::from).map_err(|error| wrong(format!("Expiration: {error}")))
    });
    let (key_id, secret_key) = (printed.access_key_id, printed.secret_access_key);
    kept(AwsCredential { key_id, secret_key, token: printed.session_token }, end.transpose()?)
}

/// Response of a container's credentials server.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ContainerCredential {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

/// Parses the response of a container's credentials server.
///
/// # Errors
/// When the response is invalid; the message does not hold the value.
pub(crate) fn read_given(text: &[u8]) -> Result<CachedCredential, String> {
    let wrong = |what: String| format!("the server of the container sends no credentials: {what}");
    let place = |error: serde_json::Error| wrong(format!("line {}, column {}", error.line(), error.column()));
    let given: ContainerCredential = serde_json::from_slice(text).map_err(place)?;
    let end = given.expiration.map(|text| {
        DateTime::parse_from_rfc3339(&text).map(SystemTime::from).map_err(|error| wrong(format!("Expiration: {error}")))
    });
    let (key_id, secret_key) = (given.access_key_id, given.secret_access_key);
    kept(AwsCredential { key_id, secret_key, token: given.token }, end.transpose()?)
}

/// Checks that a request can hold the credentials.
fn kept(credential: AwsCredential, end: Option<SystemTime>) -> Result<CachedCredential, String> {
    let AwsCredential { key_id, secret_key, token } = &credential;
    let token = ("the session token", token.as_ref());
    for (name, value) in [("the key's name", Some(key_id)), ("the key", Some(secret_key)), token] {
        value.map_or(Ok(()), |value| checked::text(name, value)).map_err(|error| error.what())?;
    }
    Ok(CachedCredential { credential: Arc::new(credential), end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_where_the_next_begins() {
        let text = "# no\n[default]\naws_access_key_id = A\nregion=eu-west-1\ns3 =\n  max = 1\n[profile b]\nregion = b\n[c]\nregion = c";
        let of = |name: &str| section(text, |section| section == name);
        assert_eq!(of("default").get("aws_access_key_id").map(String::as_str), Some("A"));
        assert_eq!(of("default").get("region").map(String::as_str), Some("eu-west-1"));
        assert_eq!((of("default").len(), of("profile b").len(), of("none").len()), (3, 1, 0));
    }

    #[test]
    fn what_a_program_prints_is_read() {
        let text = r#"{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "B", "SessionToken": "C",
                       "Expiration": "2030-01-02T03:04:05Z", "Other": 1}"#;
        let kept = read_printed(text.as_bytes()).unwrap();
        assert_eq!(kept.credential.token.as_deref(), Some("C"));
        assert_eq!(kept.end.unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(), 1_893_553_445);
        for wrong in ["", "{}", "SECRET", r#"{"Version": 2, "AccessKeyId": "A", "SecretAccessKey": "SECRET"}"#] {
            let error = read_printed(wrong.as_bytes()).map(drop).unwrap_err();
            assert!(!error.contains("SECRET"), "{error}");
        }
        let given = br#"{"AccessKeyId": "A", "SecretAccessKey": "B", "Token": "C", "RoleArn": "x"}"#;
        assert_eq!(read_given(given).unwrap().credential.token.as_deref(), Some("C"));
        let odd = read_given(br#"{"AccessKeyId": "A", "SecretAccessKey": "B", "Token": "SECRET\n"}"#).map(drop);
        assert_eq!(odd.unwrap_err(), "the session token has a line feed, which no request can have");
        assert!(run("exit 3").is_err() && run("echo no >&2; false").unwrap_err().contains(": no"));
    }

    #[test]
    fn a_profile_gives_keys_or_a_program_or_says_what_it_needs() {
        let of = |pairs: &[(&str, &str)]| {
            credentials(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        assert!(of(&[("region", "x")]).unwrap().is_none());
        assert!(of(&[("aws_access_key_id", "A"), ("aws_secret_access_key", "B")]).unwrap().is_some());
        assert!(of(&[("credential_process", "echo")]).unwrap().is_some());
        assert!(of(&[("sso_session", "x")]).is_err());
    }
}
