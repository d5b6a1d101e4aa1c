//! Checks values from settings, environment and profiles before a client receives them: clients panic on some values.
//!
//! Holds at all times: an error names the setting and never its value, which may be a secret.

use reqwest::Url;
use shardpack_format::{Error, Result};

use crate::remote::location::{Kind, is_bucket};

/// Characters that some URL parsers accept and request parsers refuse.
const NOT_OF_URLS: [char; 8] = ['"', '<', '>', '\\', '^', '`', '{', '}'];

/// Environment variables that the client of this kind of store may know: name in the environment, name for the client,
/// value. Empty variables are left out.
pub(crate) fn environment(kind: Kind) -> Vec<(String, String, String)> {
    let (prefix, others): (_, &[(&str, &str)]) = match kind {
        Kind::Web => return Vec::new(),
        Kind::S3 => ("AWS_", &[]),
        Kind::Google => ("GOOGLE_", &[("SERVICE_ACCOUNT", "service_account")]),
        Kind::Azure => ("AZURE_", &[("IDENTITY_ENDPOINT", "identity_endpoint")]),
    };
    let known = |name: &str| {
        let other = others.iter().find(|(other, _)| *other == name).map(|(_, key)| (*key).to_owned());
        other.or_else(|| name.starts_with(prefix).then(|| name.to_ascii_lowercase()))
    };
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let key = known(&name).filter(|_| !value.is_empty())?;
        Some((name, key, value))
    });
    variables.collect()
}

/// Checks the value of the setting or variable `name`, which a client knows as `key`, for the part of a request that
/// holds the value.
///
/// # Errors
/// When no request can hold the value there.
pub(crate) fn value(name: &str, key: &str, value: &str) -> Result<()> {
    let is = |words: &[&str]| words.iter().any(|word| key.ends_with(word));
    if is(&["_file", "service_account", "service_account_path", "service_account_key", "application_credentials"]) {
        return Ok(());
    }
    if key.ends_with("relative_uri") {
        return text(name, value).and_then(|()| match value.starts_with('/') && !value.contains([' ', '\t', '\\']) {
            true => Ok(()),
            false => Err(Error::usage(format!("{name} is no path of a URL: it begins with /"))),
        });
    }
    if is(&["endpoint", "endpoint_url", "endpoint_url_s3", "endpoint_url_sts", "full_uri", "base_url"])
        || is(&["authority_host", "token_service_url"])
    {
        return url(name, value);
    }
    if is(&["region", "tenant_id", "authority_id", "account_name", "fabric_workload_host"]) {
        return word(name, value);
    }
    text(name, value)
}

/// Checks the URL of a server.
pub(crate) fn url(name: &str, value: &str) -> Result<()> {
    text(name, value)?;
    let wrong = |why: &str| {
        let error = Error::usage(format!("{name} is no URL of a server: {why}"));
        Err(error.help("such a URL begins with http:// or https://, as in http://127.0.0.1:9000"))
    };
    let Some((scheme, _)) = value.split_once("://") else {
        return wrong(if value.is_empty() { "it is empty" } else { "it has no http:// before it" });
    };
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return wrong("it is neither http nor https");
    }
    if value.contains(|c: char| c.is_whitespace() || NOT_OF_URLS.contains(&c)) {
        return wrong("it has a blank or another character that no URL has");
    }
    match Url::parse(value) {
        Err(error) => wrong(&error.to_string()),
        Ok(url) if url.host_str().is_none_or(str::is_empty) => wrong("it names no server"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            wrong("it has a password, which would be in every message")
        }
        Ok(url) if url.query().is_some() || url.fragment().is_some() => wrong("it has ? or #"),
        Ok(_) => Ok(()),
    }
}

/// Checks a value that becomes part of a server name or of the scope of a signature.
fn word(name: &str, value: &str) -> Result<()> {
    text(name, value)?;
    match is_bucket(value) {
        true => Ok(()),
        false => Err(Error::usage(format!("{name} has other characters than letters, digits, dots, - and _"))
            .help("look at where it is set; a blank or quotes are often taken along")),
    }
}

/// Checks a value that goes into a header.
pub(crate) fn text(name: &str, value: &str) -> Result<()> {
    let Some(odd) = value.chars().find(|c| !matches!(c, ' '..='~')) else { return Ok(()) };
    let what = match odd {
        '\n' => "a line feed",
        '\r' => "a carriage return",
        odd if odd.is_control() => "a control character",
        _ => "a character that is not ASCII",
    };
    let error = Error::usage(format!("{name} has {what}, which no request can have"));
    Err(error.help("look at where it is set: a line feed at the end of a file is often taken along"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_request_can_have_is_refused_by_name_and_not_by_value() {
        for (name, value_of, is_right) in [
            ("aws_access_key_id", "AKID", true),
            ("aws_access_key_id", "SECRET\n", false),
            ("aws_secret_access_key", "SECRET\r", false),
            ("aws_session_token", "SECRET\u{7f}", false),
            ("aws_session_token", "SECRETé", false),
            ("aws_web_identity_token_file", "/a é\n", true),
            ("aws_region", "us-east-1", true),
            ("aws_region", "us east SECRET", false),
            ("aws_region", "us-east-1\n", false),
            ("aws_container_credentials_relative_uri", "/v2/x?id=1", true),
            ("aws_container_credentials_relative_uri", "SECRET", false),
            ("azure_tenant_id", "6f0e-1", true),
            ("azure_tenant_id", "a SECRET", false),
            ("azure_storage_account_name", "a/SECRET", false),
            ("azure_storage_account_key", "SECRET\n", false),
            ("azure_authority_host", "https://login.example.org/", true),
            ("azure_authority_host", "SECRET", false),
            ("google_bearer_token", "SECRET\n", false),
            ("google_service_account_key", "{\n}", true),
            ("base_url", "https://storage.example.org", true),
            ("base_url", "http://host SECRET", false),
        ] {
            let checked = value("NAME", name, value_of);
            assert_eq!(checked.is_ok(), is_right, "{name} {value_of:?}");
            if let Err(error) = checked {
                let said = format!("{error} {:?}", error.help_text());
                assert!(said.contains("NAME") && !said.contains("SECRET"), "{said}");
            }
        }
    }

    #[test]
    fn a_server_is_named_by_a_whole_url() {
        for right in ["http://127.0.0.1:9000", "https://minio.example.org/", "HTTPS://host/a/b", "http://[::1]:9"] {
            url("endpoint", right).unwrap();
        }
        for wrong in [
            "",
            "127.0.0.1:9000",
            "minio.example.org",
            "//host",
            "ftp://host",
            "http://",
            "http:// host",
            "http://host:port",
            "http://host:99999",
            "http://a b",
            "http://host/a b",
            "http://host\n",
            "http://hést",
            "http://user:SECRET@host",
            "http://host/?SECRET",
            "http://host/#a",
            "http://{host}",
            "http://ho\\st",
        ] {
            let error = url("endpoint", wrong).expect_err(wrong);
            assert!(error.what().starts_with("endpoint ") && !error.what().contains("SECRET"), "{error}");
        }
    }
}
