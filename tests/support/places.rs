//! Places that datasets are copied to and read from by their URLs: object stores and a web server.

#![allow(dead_code, clippy::unwrap_used)]

use std::{fs, path::Path, process::Command, time::Duration};

use crate::{
    server::Nginx,
    stores::{self, ObjectServer},
    support::{self, Ran},
};

/// Somewhere that folders are copied to.
pub enum Place {
    Objects(ObjectServer),
    Web(Nginx),
}

impl Place {
    /// All that are installed here.
    pub fn all() -> Vec<Self> {
        stores::all().into_iter().map(Self::Objects).chain(Nginx::start().map(Self::Web)).collect()
    }

    pub fn name(&self) -> String {
        match self {
            Self::Objects(server) => format!("{:?}", server.kind),
            Self::Web(_) => "web".to_owned(),
        }
    }

    pub fn port(&self) -> u16 {
        match self {
            Self::Objects(server) => server.port(),
            Self::Web(nginx) => nginx.port(),
        }
    }

    pub fn copy(&self, folder: &Path, prefix: &str) {
        match self {
            Self::Objects(server) => server.put_folder(folder, prefix),
            Self::Web(nginx) => {
                let done = Command::new("cp").arg("-rT").arg(folder).arg(nginx.data().join(prefix)).status().unwrap();
                assert!(done.success());
            }
        }
    }

    pub fn put(&self, key: &str, bytes: &[u8]) {
        match self {
            Self::Objects(server) => server.put(key, bytes),
            Self::Web(nginx) => fs::write(nginx.data().join(key), bytes).unwrap(),
        }
    }

    /// The URL of a prefix, asked for at `port`, and the options that say how.
    pub fn url(&self, prefix: &str, port: u16) -> Vec<String> {
        match self {
            Self::Objects(server) => {
                let settings = server.settings(port).into_iter().map(|(name, value)| format!("--store={name}={value}"));
                [server.url(prefix)].into_iter().chain(settings).collect()
            }
            Self::Web(_) => vec![format!("http://127.0.0.1:{port}/{prefix}")],
        }
    }
}

/// Runs the program with an environment that says nothing of stores.
pub fn run<S: AsRef<std::ffi::OsStr>>(args: &[S], environment: &[(&str, &str)]) -> Ran {
    let mut command = assert_cmd::Command::new(support::binary());
    for (name, _) in std::env::vars() {
        if ["AWS_", "GOOGLE_", "AZURE_", "STORAGE_"].iter().any(|start| name.starts_with(start)) {
            command.env_remove(name);
        }
    }
    // Profiles of whoever runs this are none of its business.
    command.env("AWS_CONFIG_FILE", "/nothing").env("AWS_SHARED_CREDENTIALS_FILE", "/nothing");
    command.env("AWS_EC2_METADATA_DISABLED", "true").envs(environment.iter().copied());
    command.args(args).timeout(Duration::from_secs(120)).output().unwrap().into()
}

/// A command with its target and options.
pub fn with<'a>(command: &'a str, target: &'a [String], options: &[&'a str]) -> Vec<&'a str> {
    [command].into_iter().chain(target.iter().map(String::as_str)).chain(options.iter().copied()).collect()
}
