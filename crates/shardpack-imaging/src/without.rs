//! Stands for decoders and encoders in a build without the feature `decode`: each function always returns
//! [`Refused::NoDecodeFeature`].

#![allow(missing_docs, reason = "the functions they stand for have them")]

use shardpack_format::image_header::Header;

use crate::{Budget, Limits, Movement, Outcome, Recipe, Refused, Reservation};

fn refused<T>() -> Result<T, Refused> {
    Err(Refused::NoDecodeFeature)
}

impl Budget {
    pub fn for_decode(&self, _: &[u8]) -> Result<Reservation<'_>, Refused> {
        refused()
    }
}

pub fn check(_: &[u8], _: &Limits) -> Result<Header, Refused> {
    refused()
}

pub fn check_entropy(_: &[u8], _: &Limits) -> Result<Header, Refused> {
    refused()
}

pub fn orientation(_: &[u8], _: &Limits) -> Result<u8, Refused> {
    refused()
}

pub fn image_hash(_: &[u8], _: &Limits) -> Result<u64, Refused> {
    refused()
}

pub fn apply_within(_: &[u8], _: &Recipe, _: &Budget) -> Result<Outcome, Refused> {
    refused()
}

pub fn mask_size(_: &[u8], _: &Budget) -> Result<(u32, u32), Refused> {
    refused()
}

pub fn move_mask(_: &[u8], _: &Movement, _: &Budget) -> Result<Vec<u8>, Refused> {
    refused()
}

pub(crate) fn look(_: &[u8], _: &Header, _: &Limits) -> Result<(u32, u32, u8), Refused> {
    refused()
}
