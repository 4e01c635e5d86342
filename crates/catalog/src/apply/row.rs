//! Rows: the stored form of the catalog, as keys and values.
//!
//! A key is the number of the table and the parts of the name, separated by NUL, which no name contains. A value is a
//! version byte and MessagePack with field names. Table numbers and field names never change. A field may be added with
//! a default; a changed meaning needs a new version of the row, which belongs to a level ([`crate::format::level`]).

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::catalog::Corrupt;
pub use crate::catalog::Table;
use crate::format::pack;

impl Table {
    /// Returns the table that a row key belongs to.
    pub fn of_key(key: &[u8]) -> Result<Table, Corrupt> {
        let number = key.first().copied().unwrap_or_default();
        Table::ALL
            .iter()
            .copied()
            .find(|table| *table as u8 == number)
            .ok_or_else(|| Corrupt(format!("row key {} belongs to no table of this version", hex::encode(key))))
    }
}

/// Returns table and number of a row whose name is a number only.
pub fn numbered(key: &[u8]) -> Option<(Table, u64)> {
    let (_, number) = key.split_first()?;
    let number = <[u8; 8]>::try_from(number).ok()?;
    Some((Table::of_key(key).ok()?, u64::from_be_bytes(number)))
}

/// Returns the key of a row whose name is a number only.
pub fn numbered_key(table: Table, number: u64) -> [u8; 9] {
    let mut key = [table as u8; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Version of the rows of every table.
const VERSION: u8 = 1;

/// Capacity that suffices for the value of most rows, in bytes.
const VALUE_BYTES_USUAL: usize = 512;

/// Builder of a row key: the table, then the parts of the name with a zero byte between them.
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

    pub(crate) fn part(&mut self, part: impl AsRef<[u8]>) -> &mut RowKey {
        if self.has_parts {
            self.bytes.push(0);
        }
        self.has_parts = true;
        self.bytes.extend_from_slice(part.as_ref());
        self
    }
}

/// A value that is stored as one row.
pub trait Row: Serialize + DeserializeOwned {
    const TABLE: Table;

    /// Adds the parts of the name to the key.
    fn name(&self, key: &mut RowKey);

    fn key(&self) -> Vec<u8> {
        let mut key = RowKey::of(Self::TABLE);
        self.name(&mut key);
        key.bytes
    }

    /// Appends the part of the value after the version byte.
    fn put_body(&self, out: &mut Vec<u8>) {
        pack::put(self, out);
    }

    /// Reads what [`Row::put_body`] appended.
    fn of_body(body: &[u8]) -> Result<Self, String> {
        pack::from_bytes(body).map_err(|error| error.to_string())
    }

    /// Returns the stored value: version byte and body.
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

/// Change of one row: its new value, or `None` if it is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}
