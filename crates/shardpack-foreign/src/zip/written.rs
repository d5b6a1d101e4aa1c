//! Writes small zip archives for tests.

use std::io::Write;

use flate2::{Compression, Crc, write::DeflateEncoder};

/// A file of these members, each stored or deflated. More than 65,535 are counted in 16 bits, as by Archive Utility of macOS.
pub(crate) fn zip(members: &[(&str, Vec<u8>, bool)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, content, is_deflated) in members {
        let deflated = || {
            let mut packed = DeflateEncoder::new(Vec::new(), Compression::default());
            packed.write_all(content).unwrap();
            packed.finish().unwrap()
        };
        let data = if *is_deflated { deflated() } else { content.clone() };
        let mut crc = Crc::new();
        crc.update(content);
        let common = |out: &mut Vec<u8>| {
            out.extend([20, 0, 0, 0, if *is_deflated { 8 } else { 0 }, 0, 0, 0, 0x21, 0]);
            [crc.sum(), data.len() as u32, content.len() as u32].iter().for_each(|said| out.extend(said.to_le_bytes()));
            out.extend((name.len() as u16).to_le_bytes());
            out.extend([0, 0]);
        };
        directory.extend(b"PK\x01\x02\x14\0");
        common(&mut directory);
        directory.extend([0; 10]);
        directory.extend((out.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        out.extend(b"PK\x03\x04");
        common(&mut out);
        out.extend(name.as_bytes());
        out.extend(data);
    }
    let at = out.len() as u32;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    [members.len() as u16; 2].iter().for_each(|said| out.extend(said.to_le_bytes()));
    [directory.len() as u32, at].iter().for_each(|said| out.extend(said.to_le_bytes()));
    out.extend([0, 0]);
    out
}
