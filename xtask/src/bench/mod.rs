//! bench
pub fn task(_: crate::arguments::Arguments) -> crate::Result<()> {
    Ok(())
}
