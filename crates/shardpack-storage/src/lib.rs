//! Files of datasets in a folder, in an object store or on a web server, behind one trait.
//!
//! A [`Storage`] is a folder whose files have names: paths below it, with `/` between the parts. [`open`] returns the storage
//! at a path or URL; an [`Address`] is a path or URL before that. [`Local`] is a folder of this machine, `remote` (feature `cloud`) a prefix of a bucket or a folder on a
//! web server. [`Memory`] and [`Faulty`] are for tests.
//!
//! Holds at all times: callers cannot tell the storages apart, except by the abilities that the trait names; a file is written
//! completely or not at all; an open file gives bytes of one version. No storage checks hashes.

#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::excessive_nesting, clippy::unwrap_used, clippy::panic))]

mod access;
mod address;
mod disk;
mod faulty;
mod listed;
mod local;
pub mod lock;
pub mod machine;
mod memory;
mod open;
pub mod own;
mod parts;
#[cfg(feature = "cloud")]
pub mod remote;
mod settings;
mod storage;
pub mod sys;

pub use access::Access;
pub use address::{Address, is_url, scheme};
pub use faulty::{Call, Faulty};
pub use listed::{Object, Odd, Page, is_key};
pub use local::{Local, UNFINISHED};
pub use memory::Memory;
pub use open::{above, existing, has_begun, open, open_later, open_to_write};
pub use parts::requests_to_write;
pub use settings::{StoreSettings, Transfers};
pub use storage::{Entry, FileWriter, OpenFile, Size, Storage, check_writable};
