//! Names that plain data needs; they are fixed here and never looked up elsewhere.

use std::fmt;

use super::tensor;

/// A name that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Global {
    /// Makes an array that is to be filled.
    Reconstruct,
    /// The type of arrays.
    Ndarray,
    /// Makes the type of an item.
    Dtype,
    /// Makes a number of an array.
    Scalar,
    /// Makes an array of bytes: protocol 5.
    FromBuffer,
    /// Makes bytes of text: protocol 2 and below.
    Encode,
    /// Makes bytes of nothing, likewise.
    Bytes,
    /// Makes an array of bytes of bytes.
    Bytearray,
    /// Makes a map.
    OrderedDict,
    /// Makes a tensor of PyTorch of its storage.
    RebuildTensor,
    /// Makes the storage of a tensor of bytes.
    LoadStorage,
    /// The type of such a storage, by the dtype of its items.
    Storage(&'static str),
}

/// Maximum number of bytes of a module name and of a name in it that messages show.
const MAX_TOLD: usize = 100;

impl Global {
    /// The object `name` of `module`, if it is plain data.
    pub(super) fn from_name(module: &[u8], name: &[u8]) -> Result<Self, String> {
        Ok(match (module, name) {
            (b"numpy.core.multiarray" | b"numpy._core.multiarray", b"_reconstruct") => Self::Reconstruct,
            (b"numpy.core.multiarray" | b"numpy._core.multiarray", b"scalar") => Self::Scalar,
            (b"numpy.core.numeric" | b"numpy._core.numeric", b"_frombuffer") => Self::FromBuffer,
            (b"numpy", b"ndarray") => Self::Ndarray,
            (b"numpy", b"dtype") => Self::Dtype,
            (b"_codecs", b"encode") => Self::Encode,
            (b"builtins" | b"__builtin__", b"bytes") => Self::Bytes,
            (b"builtins" | b"__builtin__", b"bytearray") => Self::Bytearray,
            (b"collections", b"OrderedDict") => Self::OrderedDict,
            (b"torch._utils", b"_rebuild_tensor_v2") => Self::RebuildTensor,
            (b"torch.storage", b"_load_from_bytes") => Self::LoadStorage,
            (b"torch", name) if let Some(dtype) = tensor::storage_dtype(name) => Self::Storage(dtype),
            _ => return Err(format!("it uses {}.{}, which is not plain data", escape(module), escape(name))),
        })
    }
}

impl fmt::Display for Global {
    /// As Python calls it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reconstruct => "numpy's _reconstruct",
            Self::Scalar => "numpy's scalar",
            Self::FromBuffer => "numpy's _frombuffer",
            Self::Ndarray => "numpy.ndarray",
            Self::Dtype => "numpy.dtype",
            Self::Encode => "_codecs.encode",
            Self::Bytes => "bytes",
            Self::Bytearray => "bytearray",
            Self::OrderedDict => "collections.OrderedDict",
            Self::RebuildTensor => "torch's _rebuild_tensor_v2",
            Self::LoadStorage => "torch's _load_from_bytes",
            Self::Storage(_) => "a torch storage",
        })
    }
}

fn escape(name: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&name[..name.len().min(MAX_TOLD)]);
    let rest = if name.len() > MAX_TOLD { "…" } else { "" };
    format!("{}{rest}", shown.escape_debug())
}
