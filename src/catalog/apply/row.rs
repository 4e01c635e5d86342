//! Rows: how what the catalog keeps is laid down as bytes under keys.
//!
//! A key is the number of the table and the parts of the name with a NUL between them (no name may
//! hold one). A value is a version byte and MessagePack with field names. Table numbers and field
//! names are for ever; a field may be added with a default, a changed meaning takes a new version of
//! the row, which belongs to a level ([`crate::format::level`]).

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::catalog::Corrupt;
pub use crate::catalog::Table;
use crate::format::pack;

impl Table {
    /// The table that a row key belongs to.
    pub fn of_key(key: &[u8]) -> Result<Table, Corrupt> {
        let number = key.first().copied().unwrap_or_default();
        Table::ALL
            .iter()
            .copied()
            .find(|table| *table as u8 == number)
            .ok_or_else(|| Corrupt(format!("row key {} belongs to no table of this version", hex::encode(key))))
    }
}

/// The table and the number of a row whose name is a number alone.
pub fn numbered(key: &[u8]) -> Option<(Table, u64)> {
    let (_, number) = key.split_first()?;
    let number = <[u8; 8]>::try_from(number).ok()?;
    Some((Table::of_key(key).ok()?, u64::from_be_bytes(number)))
}

/// The key of such a row.
pub fn numbered_key(table: Table, number: u64) -> [u8; 9] {
    let mut key = [table as u8; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Version of the rows of every table.
const VERSION: u8 = 1;

/// Room for the value of most rows.
const VALUE_BYTES_USUAL: usize = 512;

/// The key of a row while it is made: its table, then the parts of its name with a zero byte between them.
pub struct RowKey {
    bytes: Vec<u8>,
    has_parts: bool,
}

impl RowKey {
    fn of(table: Table) -> RowKey {
        let mut bytes = Vec::with_capacity(64);
        bytes.push(table as u8);
        RowKey { bytes, has_parts: false }
    }

    pub(in crate::catalog) fn part(&mut self, part: impl AsRef<[u8]>) -> &mut RowKey {
        if self.has_parts {
            self.bytes.push(0);
        }
        self.has_parts = true;
        self.bytes.extend_from_slice(part.as_ref());
        self
    }
}

/// Something that is kept as one row.
pub trait Row: Serialize + DeserializeOwned {
    const TABLE: Table;

    /// Says the parts of the name, which make the key.
    fn name(&self, key: &mut RowKey);

    fn key(&self) -> Vec<u8> {
        let mut key = RowKey::of(Self::TABLE);
        self.name(&mut key);
        key.bytes
    }

    /// Appends what follows the version byte.
    fn put_body(&self, out: &mut Vec<u8>) {
        pack::put(self, out);
    }

    /// Reads what [`Row::put_body`] appended.
    fn of_body(body: &[u8]) -> Result<Self, String> {
        pack::from_bytes(body).map_err(|error| error.to_string())
    }

    /// Returns the version byte and the body, as they are stored.
    fn value(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(VALUE_BYTES_USUAL);
        value.push(VERSION);
        self.put_body(&mut value);
        value
    }

    fn read(value: &[u8]) -> Result<Self, Corrupt> {
        match value.split_first() {
            Some((&VERSION, body)) => {
                Self::of_body(body).map_err(|error| Corrupt(format!("a row of table {:?}: {error}", Self::TABLE)))
            }
            Some((version, _)) => Err(Corrupt(format!("a row of table {:?} has version {version}", Self::TABLE))),
            None => Err(Corrupt(format!("a row of table {:?} is empty", Self::TABLE))),
        }
    }
}

/// One changed row: its new value, or `None` where it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}
