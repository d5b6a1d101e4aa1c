//! Objects of S3, Google Cloud Storage and Azure, through `object_store` clients without retries: this crate retries.

use std::{borrow::Cow, ops::Range, str::FromStr, sync::Arc};

use bytes::Bytes;
use object_store::{
    GetOptions, GetRange, GetResult, MultipartId, ObjectStore, ObjectStoreExt, PutOptions, RetryConfig,
    StaticCredentialProvider,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    azure::{AzureConfigKey, MicrosoftAzureBuilder},
    gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey},
    list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore},
    multipart::{MultipartStore, PartId},
    path::Path,
};
use shardpack_format::{Error, Result};

use crate::remote::{
    checked, container,
    location::{Kind, Location},
    profile,
    response::Failed,
    service::{Connector, Notes},
    settings::{Settings, unknown},
};

/// The operations of a bucket that this crate uses.
pub(crate) trait BucketClient: ObjectStore + MultipartStore + PaginatedListStore {}

impl<T: ObjectStore + MultipartStore + PaginatedListStore> BucketClient for T {}

/// A bucket.
#[derive(Debug)]
pub(crate) struct Objects {
    store: Arc<dyn BucketClient>,
    /// The places where credentials were searched, for error messages.
    tried: String,
}

impl Objects {
    /// Opens the bucket of `location` with the configuration from the environment and `settings`.
    pub fn new(location: &Location, settings: &Settings, connector: Connector) -> Result<Self> {
        let made = match location.kind {
            Kind::S3 => s3(location, settings, connector),
            Kind::Google => google(location, settings, connector),
            Kind::Azure => azure(location, settings, connector),
            Kind::Web => Err(Error::usage("a web server is not a bucket")),
        };
        let (store, tried) = made.map_err(|error| error.in_file(&location.shown))?;
        Ok(Self { store, tried })
    }

    /// Requests an object, or a byte range.
    pub async fn get(&self, key: &str, range: Option<&Range<u64>>, notes: &Notes) -> Result<GetResult, Failed> {
        let mut options = GetOptions::new().with_range(range.cloned().map(GetRange::Bounded));
        options.extensions.insert(notes.clone());
        let path = Path::parse(key).map_err(|error| Failed::Never(Error::data(error.to_string())))?;
        self.store.get_opts(&path, options).await.map_err(|error| self.failed(&error, notes))
    }

    /// Requests a page of the keys that begin with `prefix`: the page of `token`. With `are_folders`, keys are grouped
    /// up to the next slash.
    pub async fn page(
        &self,
        prefix: &str,
        are_folders: bool,
        token: Option<String>,
        notes: &Notes,
    ) -> Result<PaginatedListResult, Failed> {
        let delimiter = are_folders.then_some(Cow::Borrowed("/"));
        let mut options = PaginatedListOptions { delimiter, page_token: token, ..PaginatedListOptions::default() };
        options.extensions.insert(notes.clone());
        let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
        let page = self.store.list_paginated(prefix, options).await;
        // A truncated page may parse as a complete page.
        match notes.failed() {
            Some(failed) => Err(failed),
            None => page.map_err(|error| self.failed(&error, notes)),
        }
    }

    /// Puts an object, or replaces it.
    pub async fn put(&self, key: &str, bytes: Bytes, notes: &Notes) -> Result<(), Failed> {
        let work = async |path: &Path| self.store.put_opts(path, bytes.into(), PutOptions::default()).await;
        self.change(key, notes, work).await.map(drop)
    }

    /// Begins to put an object in parts.
    pub async fn begin(&self, key: &str, notes: &Notes) -> Result<MultipartId, Failed> {
        self.change(key, notes, async |path: &Path| self.store.create_multipart(path).await).await
    }

    /// Puts part `number`, from 0.
    pub async fn part(
        &self,
        key: &str,
        id: &MultipartId,
        number: usize,
        bytes: Bytes,
        notes: &Notes,
    ) -> Result<PartId, Failed> {
        let work = async |path: &Path| self.store.put_part(path, id, number, bytes.into()).await;
        self.change(key, notes, work).await
    }

    /// Completes an object from its parts.
    pub async fn complete(&self, key: &str, id: &MultipartId, parts: Vec<PartId>, notes: &Notes) -> Result<(), Failed> {
        let work = async |path: &Path| self.store.complete_multipart(path, id, parts).await;
        self.change(key, notes, work).await.map(drop)
    }

    /// Aborts a multipart upload.
    pub async fn abort(&self, key: &str, id: &MultipartId, notes: &Notes) -> Result<(), Failed> {
        self.change(key, notes, async |path: &Path| self.store.abort_multipart(path, id).await).await
    }

    /// Removes an object.
    pub async fn delete(&self, key: &str, notes: &Notes) -> Result<(), Failed> {
        let removed = self.change(key, notes, async |path: &Path| self.store.delete(path).await);
        removed.await
    }

    async fn change<T>(
        &self,
        key: &str,
        notes: &Notes,
        work: impl AsyncFnOnce(&Path) -> object_store::Result<T>,
    ) -> Result<T, Failed> {
        let path = Path::parse(key).map_err(|error| Failed::Never(Error::data(error.to_string())))?;
        let done = notes.with(key, work(&path)).await;
        match (notes.failed(), done) {
            (Some(failed), _) => Err(failed),
            (None, Ok(done)) => Ok(done),
            (None, Err(object_store::Error::NotFound { .. })) => Err(Failed::NotThere),
            (None, Err(error)) => Err(self.failed(&error, notes)),
        }
    }

    /// Why a request failed: the noted failure, or the request could not be signed and was not sent.
    fn failed(&self, error: &object_store::Error, notes: &Notes) -> Failed {
        match notes.failed() {
            Some(failed) => failed,
            None if notes.requests() > 0 => Failed::of_server(format!("the server sent an invalid response: {error}")),
            None => {
                let error = Error::usage(format!("no credentials: {error}"));
                Failed::Refused(
                    error.help(format!("looked for {}; public objects: --store anonymous=true", self.tried)),
                )
            }
        }
    }
}

/// The failure of a body that was cut short.
pub(crate) fn cut(error: &object_store::Error) -> Failed {
    Failed::retry(format!("the answer was cut short: {}", crate::remote::response::causes(error)))
}

/// One attempt without retries.
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

type BuiltClient = (Arc<dyn BucketClient>, String);

/// The configuration for the client of a kind of store, from the environment and then from `settings`: its name at its
/// source, the client's name as text and as key, and the value.
fn configured<K: FromStr>(
    kind: Kind,
    settings: &Settings,
    is_ours: impl Fn(&K) -> bool,
) -> Result<Vec<(String, (String, K), String)>> {
    let mut all = Vec::new();
    for (name, text, value) in checked::environment(kind) {
        // Other programs use variables with the same prefix.
        if let Some(key) = text.parse().ok().filter(|key| !is_ours(key)) {
            all.push((name, (text, key), value));
        }
    }
    for (name, value) in settings.of_client(kind) {
        let key = name.parse().ok().filter(|key| !is_ours(key)).ok_or_else(|| unknown(kind, name))?;
        all.push((name.to_owned(), (name.to_owned(), key), value.to_owned()));
    }
    Ok(all)
}

fn usage(error: object_store::Error) -> Error {
    Error::usage(error.to_string())
}

fn s3(location: &Location, settings: &Settings, connector: Connector) -> Result<BuiltClient> {
    let mut builder = AmazonS3Builder::new();
    let is_ours = |key: &AmazonS3ConfigKey| matches!(key, AmazonS3ConfigKey::Client(_) | AmazonS3ConfigKey::Bucket);
    for (name, key, value) in configured(Kind::S3, settings, is_ours)? {
        checked::value(&name, &key.0, &value)?;
        builder = builder.with_config(key.1, value);
    }
    let has = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).is_some_and(|value| !value.is_empty());
    // An explicit profile overrides the environment, as in the AWS programs.
    let has_keys = has(&builder, AmazonS3ConfigKey::AccessKeyId) && settings.get("profile").is_none();
    let profile = profile::read(settings.get("profile"))?;
    let region = settings.get("region").or_else(|| {
        let given = has(&builder, AmazonS3ConfigKey::Region) || has(&builder, AmazonS3ConfigKey::DefaultRegion);
        profile.region.as_deref().filter(|_| !given)
    });
    if let Some(region) = region {
        checked::value("region", "region", region)?;
        builder = builder.with_region(region);
    }
    let has_endpoint = has(&builder, AmazonS3ConfigKey::Endpoint) || has(&builder, AmazonS3ConfigKey::S3Endpoint);
    let endpoint = profile.endpoint.as_deref().filter(|_| !has_endpoint);
    if let Some(endpoint) = settings.get("endpoint").or(endpoint) {
        checked::url("endpoint", endpoint)?;
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint).with_endpoint(endpoint);
    }
    if settings.is("anonymous")? {
        builder = builder.with_skip_signature(true);
    }
    if settings.is("requester_pays")? {
        builder = builder.with_request_payer(true);
    }
    let mut tried = format!("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, {}", profile.said);
    let is_anonymous = builder.get_config_value(&AmazonS3ConfigKey::SkipSignature).is_some_and(|value| value == "true");
    if is_anonymous {
        // No credentials are searched.
    } else if !has_keys && let Some(credentials) = profile.credentials? {
        builder = builder.with_credentials(credentials);
    } else if !has_keys {
        let is_elsewhere =
            has(&builder, AmazonS3ConfigKey::WebIdentityTokenFile) && has(&builder, AmazonS3ConfigKey::RoleArn);
        let of_container = container::Container::of_environment(&connector)?.filter(|_| !is_elsewhere);
        tried.push_str(
            ", AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN, AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI",
        );
        let says_so = |value: String| ["true", "1", "yes"].contains(&value.trim().to_ascii_lowercase().as_str());
        let is_disabled = std::env::var("AWS_EC2_METADATA_DISABLED").is_ok_and(says_so);
        if let Some(container) = of_container {
            builder = builder.with_credentials(container::provider(container));
        } else if !is_elsewhere && is_disabled {
            let error = Error::usage("no credentials").help(format!(
                "looked for {tried}; AWS_EC2_METADATA_DISABLED turns off the credentials of the machine; public objects: --store anonymous=true"
            ));
            return Err(error);
        } else if !is_elsewhere {
            tried.push_str(", and the credentials of the machine at 169.254.169.254");
        }
    }
    // Some servers cannot delete several objects in one request.
    let builder = builder.with_disable_bulk_delete(true).with_bucket_name(&location.bucket);
    let builder = builder.with_retry(once()).with_http_connector(connector);
    Ok((Arc::new(builder.build().map_err(usage)?), tried))
}

fn google(location: &Location, settings: &Settings, connector: Connector) -> Result<BuiltClient> {
    let mut builder = GoogleCloudStorageBuilder::new();
    let is_ours = |key: &GoogleConfigKey| matches!(key, GoogleConfigKey::Client(_) | GoogleConfigKey::Bucket);
    for (name, key, value) in configured(Kind::Google, settings, is_ours)? {
        checked::value(&name, &key.0, &value)?;
        builder = builder.with_config(key.1, value);
    }
    let emulator = std::env::var("STORAGE_EMULATOR_HOST").ok().filter(|host| !host.is_empty());
    // Without a scheme it is http, as in the Google clients.
    let emulator = emulator.map(|host| if host.contains("://") { host } else { format!("http://{host}") });
    let is_emulator = emulator.is_some() && settings.get("endpoint").is_none();
    if let Some(endpoint) = settings.get("endpoint").map(str::to_owned).or(emulator) {
        let name = if is_emulator { "STORAGE_EMULATOR_HOST" } else { "endpoint" };
        checked::url(name, &endpoint)?;
        builder = builder.with_base_url(&endpoint);
    }
    if settings.is("anonymous")? || is_emulator {
        builder = builder.with_skip_signature(true);
    }
    if builder.get_config_value(&GoogleConfigKey::SkipSignature).is_some_and(|value| value == "true") {
        // This applies to reads only: writes of this client look for credentials anyway. Empty credentials are not
        // sent.
        let none = GcpCredential { bearer: String::new() };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(none)));
    }
    let tried = "GOOGLE_SERVICE_ACCOUNT, GOOGLE_SERVICE_ACCOUNT_KEY, GOOGLE_APPLICATION_CREDENTIALS, \
                 the file of `gcloud auth application-default login`, \
                 and the credentials of the machine at metadata.google.internal";
    let builder = builder.with_bucket_name(&location.bucket).with_retry(once()).with_http_connector(connector);
    Ok((Arc::new(builder.build().map_err(usage)?), tried.to_owned()))
}

fn azure(location: &Location, settings: &Settings, connector: Connector) -> Result<BuiltClient> {
    let mut builder = MicrosoftAzureBuilder::new();
    let is_ours = |key: &AzureConfigKey| matches!(key, AzureConfigKey::Client(_) | AzureConfigKey::ContainerName);
    for (name, key, value) in configured(Kind::Azure, settings, is_ours)? {
        checked::value(&name, &key.0, &value)?;
        builder = builder.with_config(key.1, value);
    }
    for (name, value) in connection_string() {
        let (key, checks) = match name.to_ascii_lowercase().as_str() {
            "accountname" => (AzureConfigKey::AccountName, "account_name"),
            "accountkey" => (AzureConfigKey::AccessKey, "account_key"),
            "sharedaccesssignature" => (AzureConfigKey::SasKey, "sas_key"),
            "blobendpoint" => (AzureConfigKey::Endpoint, "endpoint"),
            _ => continue,
        };
        if builder.get_config_value(&key).is_none() {
            checked::value(&format!("{name} of AZURE_STORAGE_CONNECTION_STRING"), checks, &value)?;
            builder = builder.with_config(key, value);
        }
    }
    if let Some(account) = &location.account {
        builder = builder.with_account(account);
    }
    if let Some(endpoint) = settings.get("endpoint") {
        checked::url("endpoint", endpoint)?;
        builder = builder.with_endpoint(endpoint.to_owned());
    }
    if settings.is("anonymous")? {
        builder = builder.with_skip_signature(true);
    }
    if builder.get_config_value(&AzureConfigKey::AccountName).is_none() {
        let error = Error::usage("no account of Azure");
        return Err(error.help(
            "set AZURE_STORAGE_ACCOUNT_NAME or AZURE_STORAGE_CONNECTION_STRING, or write \
                               abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
        ));
    }
    let tried = "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_CONNECTION_STRING, AZURE_CLIENT_ID with \
                 AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE, and the \
                 credentials of the machine at 169.254.169.254";
    let builder = builder.with_container_name(&location.bucket).with_retry(once()).with_http_connector(connector);
    Ok((Arc::new(builder.build().map_err(usage)?), tried.to_owned()))
}

/// The parts of AZURE_STORAGE_CONNECTION_STRING.
fn connection_string() -> Vec<(String, String)> {
    let text = std::env::var("AZURE_STORAGE_CONNECTION_STRING").unwrap_or_default();
    let parts = text.split(';').filter_map(|part| part.split_once('='));
    parts.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}
