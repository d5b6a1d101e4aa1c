//! The result of `pack` as text.

use std::path::{Path, PathBuf};

use shardpack_format::{hash, image_header::Kind, shell, text};
use shardpack_packer::pack::{Planned, Report};
use shardpack_storage::Address;

use crate::{lines::Lines, report};

/// Number of strays to name; `inspect --samples --strays` lists all.
const NAMED: usize = 20;

/// The result of a pack into `dst`.
pub fn as_text(report: &Report, planned: &Planned, dst: &Path, quiet: bool) -> Lines {
    let mut out = Lines::default();
    let packed: u64 = report.manifests.iter().map(|manifest| manifest.samples).sum();
    let found: u64 = report.manifests.iter().map(|manifest| manifest.ledger.counts.discovered).sum();
    if let Some(changed) = &report.changed {
        line!(out, "changed {changed}");
    }
    if !report.sealed {
        return out + failed_as_text(report, planned);
    }
    if report.already_sealed {
        return out + sealed_before_as_text(report, packed, planned, dst);
    }
    let missing = found - packed;
    let how = match missing {
        0 => {
            format!(", {}", report::rate(report.manifests.iter().map(|m| m.payload_bytes).sum(), report.elapsed))
        }
        _ => format!("; {} not packed, see ledger.jsonl", report::count(missing)),
    };
    line!(
        out,
        "packed  {} of {} in {}{how}",
        report::count(packed),
        report::counted(found, planned.noun()),
        report::duration(report.elapsed)
    );
    if report.resumed_shards > 0 {
        line!(
            out,
            "        {} of {} {} finished before",
            report.resumed_shards,
            report::counted(report.shards as u64, "shard"),
            if report.shards == 1 { "was" } else { "were" }
        );
    }
    out += report::left_uploads(&report.left_uploads);
    out += report::list_left_out(&report.bad, "ledger.jsonl names all");
    out += strays_as_text(&report.strays, report.stray_samples, planned, dst);
    if quiet {
        return out;
    }
    for manifest in &report.manifests {
        line!(out, "id      {}  {}", hash::hex(&manifest.id.0), manifest.name);
    }
    line!(out, "next    shardpack verify {}", shell::path(dst));
    if let Some(url) = Address::of(dst).url() {
        // Recipes of other readers for URLs depend on the reader; ours works.
        let splits = planned.plans.iter().filter_map(|plan| plan.split.as_deref());
        let split = splits.map(|split| format!("/{split}")).next().unwrap_or_default();
        let url = shell::python(format!("{}{split}", url.trim_end_matches('/')));
        line!(out, "        shardpack: shardpack.Loader({url}, 64)");
        return out;
    }
    for (manifest, plan) in report.manifests.iter().zip(&planned.plans) {
        let folder = plan.split.as_ref().map_or_else(|| dst.to_path_buf(), |split| dst.join(split));
        let (shards, is_compressed) = (manifest.shards.len() as u64, manifest.format.compression != "none");
        // Removes duplicate and trailing slashes.
        let folder = folder.components().collect::<PathBuf>();
        let has = |end: &str| manifest.sidecars.iter().any(|sidecar| sidecar.file.ends_with(end));
        for (reader, line) in plan.format().recipes(&folder, &manifest.name, shards, is_compressed) {
            // Omit recipes whose index was not written.
            let is_there = match reader {
                "streaming" => has("index.json"),
                "DALI" if line.contains("-dali.idx") => has("-dali.idx"),
                "DALI" => has(".idx"),
                _ => true,
            };
            if is_there {
                line!(out, "        {reader}: {line}");
            }
        }
    }
    out
}

/// A pack that sealed nothing.
fn failed_as_text(report: &Report, planned: &Planned) -> Lines {
    let mut out = report::left_uploads(&report.left_uploads);
    line!(
        out,
        "failed  {} could not be packed, nothing is sealed",
        report::counted(report.bad.len() as u64, planned.noun())
    );
    out += report::list_left_out(&report.bad, "--json names all");
    line!(out, "  help: mend them and run the same command again: finished shards without them are kept;");
    line!(out, "        or --on-bad skip leaves them out and names them in the ledger");
    line!(out, "        (if the number of images changes, so does the order: then --force packs all anew)");
    if let Some(replaced) = &report.replaced {
        line!(out, "        the previous dataset is kept in {} until then", text::path(replaced));
    }
    out
}

/// A dataset of `packed` samples that an earlier run sealed.
fn sealed_before_as_text(report: &Report, packed: u64, planned: &Planned, dst: &Path) -> Lines {
    let mut out = Lines::default();
    line!(
        out,
        "sealed  {} are packed here already, nothing to do: names, lengths and options are unchanged",
        report::counted(packed, planned.noun())
    );
    if let Some((newer, first)) = &report.newer {
        let first = report::path(first);
        let how = match report.manifests.iter().any(|manifest| manifest.recipe.is_some()) {
            true => "--force packs it anew".to_owned(),
            false => format!("shardpack verify {} --against SRC compares their bytes", shell::path(dst)),
        };
        let are = if *newer == 1 { "is" } else { "are" };
        line!(
            out,
            "        {} {are} newer than the dataset, the first {first}: {how}",
            report::counted(*newer, "file")
        );
    }
    if report.other_sidecars {
        line!(out, "        the sidecars differ from those of --sidecars: --force packs the dataset anew");
    }
    out
}

/// Names images whose kind does not match the extension.
pub fn strays_as_text(strays: &[(Vec<u8>, Kind)], stray_samples: u64, planned: &Planned, dst: &Path) -> Lines {
    let mut out = Lines::default();
    let extension = planned.plans.first().and_then(|plan| plan.options.format.extension.clone()).unwrap_or_default();
    for (path, kind) in strays.iter().take(NAMED) {
        let kind = match kind.name() {
            // Without images, only arrays are checked.
            "unknown" if planned.noun() != "image" => "is no array by its first bytes".to_owned(),
            "unknown" => "is no image by its first bytes".to_owned(),
            name => format!("is a {}", name.to_uppercase()),
        };
        line!(out, "        {} {kind} (kept; the component stays .{extension})", report::path(path));
    }
    if stray_samples > NAMED as u64 {
        line!(
            out,
            "        … {} in all: shardpack inspect {} --samples --strays",
            report::count(stray_samples),
            shell::path(dst)
        );
    }
    out
}
