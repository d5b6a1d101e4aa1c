//! `shardpack inspect`.
use crate::Outcome;
use shardpack_packer::Result;
#[derive(clap::Args, Debug)]
pub struct Args {}
pub fn run(_: &Args) -> Result<Outcome> {
    Ok(Outcome::Done)
}
