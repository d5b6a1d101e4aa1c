//! Connections to servers, and objects of web servers.

use std::{fs, ops::Range};

use reqwest::{
    Certificate, Client, Proxy, Response, Url,
    header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue, RANGE},
    redirect,
};
use shardpack_format::{Error, ErrorKind, Result};

use crate::{
    answer::{Failed, causes, failed_way},
    location::Kind,
    settings::{Options, Settings},
};

/// Redirects that are followed for one request.
const MOST_REDIRECTS: usize = 5;
pub(crate) const USER_AGENT: &str = concat!("shardpack/", env!("CARGO_PKG_VERSION"));

/// Connections to a server.
pub(crate) fn client(kind: Kind, settings: &Settings, options: &Options) -> Result<Client> {
    // Fails where it was installed before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut client = Client::builder().user_agent(USER_AGENT).connect_timeout(options.silence);
    client = client.pool_max_idle_per_host(options.most_requests as usize);
    // A request to a store is signed for one host.
    client = client.redirect(if kind == Kind::Web { followed(settings) } else { redirect::Policy::none() });
    let ca = settings.get("ca_file").map(str::to_owned);
    let of_aws = || std::env::var("AWS_CA_BUNDLE").ok().filter(|path| kind == Kind::S3 && !path.is_empty());
    if let Some(path) = ca.or_else(of_aws) {
        let wrong = |what: String| Error::usage(what).in_file(&path).help("ca_file is a file of PEM certificates");
        let bytes = fs::read(&path).map_err(|error| wrong(format!("cannot read: {error}")))?;
        let found = Certificate::from_pem_bundle(&bytes).map_err(|error| wrong(causes(&error)))?;
        if found.is_empty() {
            return Err(wrong("there is no certificate in it".to_owned()));
        }
        client = client.tls_certs_merge(found);
    }
    if let Some(proxy) = settings.get("proxy") {
        let proxy = Proxy::all(proxy).map_err(|error| Error::usage(format!("no proxy: {error}")))?;
        client = client.proxy(proxy);
    }
    client.build().map_err(|error| Error::new(ErrorKind::System, format!("cannot speak HTTP: {}", causes(&error))))
}

fn followed(settings: &Settings) -> redirect::Policy {
    let has_headers = settings.get("header").is_some();
    redirect::Policy::custom(move |attempt| {
        let before = attempt.previous().last();
        let from_https = before.is_some_and(|url| url.scheme() == "https");
        let is_elsewhere = before.is_some_and(|url| url.origin() != attempt.url().origin());
        if attempt.previous().len() > MOST_REDIRECTS {
            attempt.error("too many redirects")
        } else if !["http", "https"].contains(&attempt.url().scheme()) {
            attempt.error("a redirect to what is no web server")
        } else if from_https && attempt.url().scheme() != "https" {
            attempt.error("a redirect from https to http")
        } else if is_elsewhere && has_headers {
            attempt.error("a redirect to another server, which would be sent the header, too")
        } else {
            attempt.follow()
        }
    })
}

/// The headers that the user gives, and those of each request.
pub(crate) fn headers(settings: &Settings) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for text in settings.all("header") {
        // The value may be a secret.
        let wrong = || Error::usage("header is none of HTTP").help("write header=NAME: VALUE");
        let (name, value) = text.split_once(':').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// Asks for an object, or a range of it.
pub(crate) async fn get(
    client: &Client,
    headers: &HeaderMap,
    url: Url,
    range: Option<&Range<u64>>,
) -> Result<Response, Failed> {
    let mut request = client.get(url).headers(headers.clone());
    if let Some(range) = range {
        request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
    }
    request.send().await.map_err(failed)
}

pub(crate) fn failed(error: reqwest::Error) -> Failed {
    failed_way(&error, error.is_redirect())
}
