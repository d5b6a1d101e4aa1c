//! Opens connections to servers and requests objects of web servers.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs},
    ops::Range,
    sync::Arc,
};

use reqwest::{
    Client, Proxy, Response, Url,
    header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue, RANGE},
    redirect,
};
use rustls::{
    ClientConfig,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use rustls_platform_verifier::Verifier;
use shardpack_format::{Error, ErrorKind, Result, regular};

use crate::remote::{
    checked,
    location::Kind,
    response::{Failed, causes, failed_way},
    settings::{Options, Settings},
};

/// Maximum number of redirects for one request.
const MAX_REDIRECTS: usize = 5;
pub(crate) const USER_AGENT: &str = concat!("shardpack/", env!("CARGO_PKG_VERSION"));

/// Settings of encrypted connections: the certificates of the system, and those of `ca_file`. Reading them takes as long as
/// several requests, so that all clients of a server share them.
pub(crate) fn tls(kind: Kind, settings: &Settings) -> Result<ClientConfig> {
    let ca = settings.get("ca_file").map(str::to_owned);
    let of_aws = || std::env::var("AWS_CA_BUNDLE").ok().filter(|path| kind == Kind::S3 && !path.is_empty());
    let provider = Arc::new(ring::default_provider());
    let failed = |error: rustls::Error| Error::new(ErrorKind::System, format!("cannot speak HTTP: {error}"));
    let verifier = match ca.or_else(of_aws) {
        None => Verifier::new(Arc::clone(&provider)).map_err(failed)?,
        Some(path) => {
            let wrong = |what: String| Error::usage(what).in_file(&path).help("ca_file is a file of PEM certificates");
            let bytes = regular::read(&path).map_err(|error| wrong(format!("cannot read: {error}")))?;
            let found = CertificateDer::pem_slice_iter(&bytes).collect::<std::result::Result<Vec<_>, _>>();
            let found = found.map_err(|error| wrong(error.to_string()))?;
            if found.is_empty() {
                return Err(wrong("there is no certificate in it".to_owned()));
            }
            let verifier = Verifier::new_with_extra_roots(found, Arc::clone(&provider));
            verifier.map_err(|error| wrong(error.to_string()))?
        }
    };
    let versions =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(failed)?;
    let mut tls = versions.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
    tls.alpn_protocols = [&b"h2"[..], b"http/1.1"].map(<[u8]>::to_vec).into();
    Ok(tls)
}

/// A client with its connections to a server.
pub(crate) fn client(kind: Kind, settings: &Settings, options: &Options, tls: ClientConfig) -> Result<Client> {
    let mut client = Client::builder().user_agent(USER_AGENT).connect_timeout(options.silence);
    client = client.tls_backend_preconfigured(tls);
    client = client.pool_max_idle_per_host(options.most_requests as usize);
    // A request to an object store is signed for one host.
    client = client.redirect(if kind == Kind::Web { followed(settings) } else { redirect::Policy::none() });
    if let Some(proxy) = settings.get("proxy") {
        checked::text("proxy", proxy)?;
        // The client's error may quote a password.
        let wrong = |_| Error::usage("proxy is not the URL of a proxy").help("write proxy=http://HOST:PORT");
        let proxy = Proxy::all(proxy).map_err(wrong)?;
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
        if attempt.previous().len() > MAX_REDIRECTS {
            attempt.error("too many redirects")
        } else if !["http", "https"].contains(&attempt.url().scheme()) {
            attempt.error("a redirect to a URL that is neither http nor https")
        } else if from_https && attempt.url().scheme() != "https" {
            attempt.error("a redirect from https to http")
        } else if !before.is_some_and(is_link_local) && is_link_local(attempt.url()) {
            attempt
                .error("a redirect to an address of the machine's own network (link-local), where its secrets may be")
        } else if is_elsewhere && has_headers {
            attempt.error("a redirect to another server, which would also receive the header")
        } else {
            attempt.follow()
        }
    })
}

/// Whether `url` has a link-local address: machines get their credentials there. Host names are resolved.
fn is_link_local(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) => is_local(address),
        // A name that does not resolve here may resolve at the proxy.
        Err(_) => (host, url.port_or_known_default().unwrap_or(80))
            .to_socket_addrs()
            .is_ok_and(|mut all| all.any(|address| is_local(address.ip()))),
    }
}

fn is_local(address: IpAddr) -> bool {
    // fd00:ec2::/32 has the same role for IPv6 on AWS.
    let of_six = |address: Ipv6Addr| address.is_unicast_link_local() || address.segments()[..2] == [0xfd00, 0xec2];
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => of_six(address) || four_in(address).is_some_and(|four| four.is_link_local()),
    }
}

/// The IPv4 address inside an IPv6 address: mapped, compatible, or NAT64.
fn four_in(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let is_nat = [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0];
    let four = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    if is_nat { Some(four) } else { address.to_ipv4() }
}

/// The user's headers, and the headers of every request.
pub(crate) fn headers(settings: &Settings) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for text in settings.all("header") {
        // The value may be a secret.
        let wrong = || Error::usage("header is not an HTTP header").help("write header=NAME: VALUE");
        let (name, value) = text.split_once(':').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        let mut value: HeaderValue = value.trim().parse().map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// Requests an object, or a byte range.
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

/// The error text without the URL.
pub(crate) fn said(error: &reqwest::Error) -> String {
    match causes(error) {
        said if said.is_empty() => "the request failed".to_owned(),
        said => said,
    }
}

pub(crate) fn failed(error: reqwest::Error) -> Failed {
    failed_way(&error, error.is_redirect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_holds_no_certificate_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let pem = |text: &str| format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        for (text, what) in [
            (String::new(), "there is no certificate in it"),
            (pem("!!!!"), "base64"),
            (pem("AAAA"), "invalid peer certificate"),
        ] {
            std::fs::write(&path, &text).unwrap();
            let settings = Settings::from_pairs([("ca_file".to_owned(), path.display().to_string())]);
            let error = tls(Kind::Web, &settings).unwrap_err();
            assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("ca.pem"), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        }
        assert_eq!(tls(Kind::Web, &Settings::default()).unwrap().alpn_protocols, [&b"h2"[..], b"http/1.1"]);
    }

    #[test]
    fn addresses_that_no_router_passes_on_are_known_however_they_are_written() {
        for (url, is) in [
            ("http://169.254.169.254/latest/", true),
            ("http://169.254.0.1/", true),
            ("http://2852039166/", true),
            ("http://0xa9fea9fe/", true),
            ("http://[fe80::1]/", true),
            ("http://[febf::1]/", true),
            ("http://[::ffff:169.254.169.254]/", true),
            ("http://[::ffff:a9fe:a9fe]/", true),
            ("http://[::169.254.169.254]/", true),
            ("http://[64:ff9b::a9fe:a9fe]/", true),
            ("http://[fd00:ec2::254]/", true),
            ("http://127.0.0.1/", false),
            ("http://localhost/", false),
            ("http://[::1]/", false),
            ("http://[fec0::1]/", false),
            ("http://169.255.0.1/", false),
            ("http://[::ffff:10.0.0.1]/", false),
        ] {
            assert_eq!(is_link_local(&Url::parse(url).unwrap()), is, "{url}");
        }
    }
}
