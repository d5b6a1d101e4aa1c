//! Verifies a file of records: checksums, presence of the image, and, on request, decoding.

use shardpack_format::{Error, Result, formats::foreign::FieldSelection, hash};

use super::{Options, Walked, decode, of_sample};
use crate::{
    foreign::{ShardFile, tables},
    monitor::Monitor,
    source::options::SPLITS,
};

/// Name in messages for an image whose field has no name.
const IMAGE: &[u8] = b"image";

/// Adds the findings to `walked`; an error means that the rest of the file cannot be parsed.
pub(super) fn walk(file: &ShardFile, options: &Options, monitor: &dyn Monitor, walked: &mut Walked) -> Result<()> {
    let mut walk = file.walk(&file.own_selection(), &|| monitor.check_cancelled())?;
    let mut bytes = Vec::new();
    let mut end = 0;
    while let Some(record) = walk.next()? {
        monitor.check_cancelled()?;
        walked.samples += 1;
        end = record.range.end;
        if let Some(starts) = &mut walked.starts {
            starts.push(record.range.start);
        }
        if record.key_is_unique {
            walked.keys.push((hash::content(&record.key), record.range.start));
        }
        let damaged = |what: String| {
            let mut problem = of_sample(file, &record.key, record.range.start, what);
            problem.bytes = problem.bytes.map(|_| record.range.clone());
            problem
        };
        match &record.image {
            Err(why) if record.is_damaged => walked.add(damaged(why.clone())),
            Err(why) => {
                walked.values += u64::from(record.has_values());
                walked.lacks(damaged(why.clone()));
            }
            Ok(image) if image.bytes == 0 => walked.add(damaged("empty image".to_owned())),
            Ok(image) => {
                walked.images += 1;
                match walked.words.said(&record.label, record.class.as_deref(), None) {
                    Ok(said) => walked.said.push((said, record.range.start)),
                    Err(why) => walked.add(damaged(why)),
                }
                // Whether a missing label is a problem depends on the other records.
                let image = if image.name.is_empty() { IMAGE } else { image.name.as_bytes() };
                walked.note(vec![image.to_vec()], &record.key);
                if options.decode {
                    walk.image(&mut bytes)?;
                    if let Err(what) = decode::decode(&bytes, &mut walked.not_decoded) {
                        walked.add(damaged(what));
                    }
                }
            }
        }
    }
    if let Some(starts) = &mut walked.starts {
        starts.push(end);
    }
    find_odd_splits(file, walked)?;
    walk.remarks().iter().chain(&walk.lost()).for_each(|remark| walked.add_error(file, remark));
    Ok(())
}

/// Adds the reasons for which a conversion would refuse the file's splits.
fn find_odd_splits(file: &ShardFile, walked: &mut Walked) -> Result<()> {
    let wanted = FieldSelection { no_labels: true, ..file.own_selection() };
    let names = file.splits(&wanted)?;
    if !names.iter().all(|name| SPLITS.contains(&name.as_str())) {
        return Ok(());
    }
    let odd = file.split_warnings(&wanted)?;
    if let Some(shared) = odd.shared {
        walked.add_error(file, &Error::data(shared));
    }
    for row in odd.strays.into_iter().flatten() {
        walked.add(of_sample(file, row.to_string().as_bytes(), 0, tables::known::stray(row)));
    }
    Ok(())
}
