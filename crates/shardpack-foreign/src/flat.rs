//! Flatbuffers, as far as Arrow's messages need them; no place in them is trusted.
//!
//! Specification: <https://flatbuffers.dev/internals/>. Places are checked when they are followed.

/// A table.
pub(crate) struct Table<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Places of the fields from `at`, two bytes each; 0 is a field that is not there.
    fields: &'b [u8],
}

/// A vector; its items are of one length.
pub(crate) struct Vector<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Length of an item in bytes.
    item_bytes: usize,
    pub(crate) count: usize,
}

const DAMAGED: &str = "a damaged flatbuffer";

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], String> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(|| DAMAGED.to_owned())
}

/// Where the offset at `at` leads.
fn follow(bytes: &[u8], at: usize) -> Result<usize, String> {
    let offset = usize::try_from(u32::from_le_bytes(chunk(bytes, at)?)).ok();
    offset.and_then(|offset| at.checked_add(offset)).ok_or_else(|| DAMAGED.to_owned())
}

impl<'b> Table<'b> {
    pub(crate) fn root(bytes: &'b [u8]) -> Result<Self, String> {
        Self::at(bytes, follow(bytes, 0)?)
    }

    fn at(bytes: &'b [u8], at: usize) -> Result<Self, String> {
        let back = i64::from(i32::from_le_bytes(chunk(bytes, at)?));
        let places = i64::try_from(at).ok().and_then(|at| usize::try_from(at - back).ok());
        let places = places.ok_or_else(|| DAMAGED.to_owned())?;
        let size = usize::from(u16::from_le_bytes(chunk(bytes, places)?));
        let all = places.checked_add(size).and_then(|end| bytes.get(places..end));
        let fields = all.and_then(|all| all.get(4..)).ok_or_else(|| DAMAGED.to_owned())?;
        Ok(Self { bytes, at, fields })
    }

    fn field(&self, number: usize) -> Option<usize> {
        match u16::from_le_bytes(chunk(self.fields, 2 * number).ok()?) {
            0 => None,
            place => Some(self.at + usize::from(place)),
        }
    }

    /// Value of a field; zeros, the default of every field read here, if the field is missing.
    fn number<const N: usize>(&self, number: usize) -> Result<[u8; N], String> {
        self.field(number).map_or(Ok([0; N]), |at| chunk(self.bytes, at))
    }

    fn reference(&self, number: usize) -> Result<usize, String> {
        follow(self.bytes, self.field(number).ok_or_else(|| DAMAGED.to_owned())?)
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        self.field(number).is_some()
    }

    pub(crate) fn u8(&self, number: usize) -> Result<u8, String> {
        self.number(number).map(|[byte]| byte)
    }

    pub(crate) fn u16(&self, number: usize) -> Result<u16, String> {
        self.number(number).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&self, number: usize) -> Result<u32, String> {
        self.number(number).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&self, number: usize) -> Result<u64, String> {
        self.number(number).map(u64::from_le_bytes)
    }

    pub(crate) fn table(&self, number: usize) -> Result<Self, String> {
        Self::at(self.bytes, self.reference(number)?)
    }

    /// A table that may be missing.
    pub(crate) fn table_opt(&self, number: usize) -> Result<Option<Self>, String> {
        self.has(number).then(|| self.table(number)).transpose()
    }

    /// The tables of a vector that may be missing.
    pub(crate) fn tables(&self, number: usize) -> Result<impl Iterator<Item = Result<Self, String>> + 'b, String> {
        let vector = self.has(number).then(|| self.vector(number, 4)).transpose()?;
        Ok(vector.into_iter().flat_map(|vector| (0..vector.count).map(move |number| vector.table(number))))
    }

    pub(crate) fn vector(&self, number: usize, item_bytes: usize) -> Result<Vector<'b>, String> {
        let at = self.reference(number)?;
        let count = u32::from_le_bytes(chunk(self.bytes, at)?);
        let at = at + 4;
        let count = usize::try_from(count).ok().filter(|count| {
            let left = self.bytes.len().saturating_sub(at);
            count.checked_mul(item_bytes).is_some_and(|bytes| bytes <= left)
        });
        let count = count.ok_or_else(|| DAMAGED.to_owned())?;
        Ok(Vector { bytes: self.bytes, at, item_bytes, count })
    }

    pub(crate) fn bytes(&self, number: usize) -> Result<&'b [u8], String> {
        let vector = self.vector(number, 1)?;
        Ok(&self.bytes[vector.at..vector.at + vector.count])
    }
}

impl<'b> Vector<'b> {
    fn item(&self, number: usize) -> Option<usize> {
        (number < self.count).then_some(self.at + number * self.item_bytes)
    }

    pub(crate) fn table(&self, number: usize) -> Result<Table<'b>, String> {
        let at = self.item(number).ok_or_else(|| DAMAGED.to_owned())?;
        Table::at(self.bytes, follow(self.bytes, at)?)
    }

    pub(crate) fn u32(&self, number: usize) -> Option<u32> {
        chunk(self.bytes, self.item(number)?).ok().map(u32::from_le_bytes)
    }

    /// The 64 bits at byte `at` of an item.
    pub(crate) fn u64(&self, number: usize, at: usize) -> Option<u64> {
        let start = self.item(number)?.checked_add(at).filter(|_| at + 8 <= self.item_bytes)?;
        chunk(self.bytes, start).ok().map(u64::from_le_bytes)
    }

    /// The two numbers of a structure.
    pub(crate) fn pair(&self, number: usize) -> Option<(u64, u64)> {
        Some((self.u64(number, 0)?, self.u64(number, 8)?))
    }
}
