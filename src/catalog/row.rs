//! Rows: how what the catalog keeps is laid down as bytes under keys.
//!
//! A key is the number of the table and the parts of the name with a NUL between them (no name may
//! hold one). A value is a version byte and MessagePack with field names. Table numbers and field
//! names are for ever; a field may be added with a default, a changed meaning takes a new version.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Corrupt;
use crate::pack;

/// Tables by number. 0 belongs to the Raft adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Table {
    Cluster = 1,
    Node = 2,
    User = 3,
    Token = 4,
    Request = 5,
    Namespace = 6,
    Service = 7,
    ConfigGroup = 8,
    ConfigFile = 9,
    ConfigRelease = 10,
    ConfigMark = 11,
    ConfigVersion = 12,
    Alias = 13,
    Cl5Counter = 14,
    Rule = 15,
    RuleRelease = 16,
    Instance = 17,
}

impl Table {
    const ALL: [Table; 17] = [
        Table::Cluster,
        Table::Node,
        Table::User,
        Table::Token,
        Table::Request,
        Table::Namespace,
        Table::Service,
        Table::ConfigGroup,
        Table::ConfigFile,
        Table::ConfigRelease,
        Table::ConfigMark,
        Table::ConfigVersion,
        Table::Alias,
        Table::Cl5Counter,
        Table::Rule,
        Table::RuleRelease,
        Table::Instance,
    ];

    /// The table that a row key belongs to.
    pub fn of_key(key: &[u8]) -> Result<Table, Corrupt> {
        let number = key.first().copied().unwrap_or_default();
        Table::ALL
            .into_iter()
            .find(|table| *table as u8 == number)
            .ok_or_else(|| Corrupt(format!("row key {} belongs to no table of this version", hex::encode(key))))
    }
}

const ROW_VERSION: u8 = 1;

/// Something that is kept as one row.
pub trait Row: Serialize + DeserializeOwned {
    const TABLE: Table;

    /// The parts of the name, which make the key.
    fn name(&self) -> Vec<Cow<'_, [u8]>>;

    fn key(&self) -> Vec<u8> {
        let name = self.name();
        let mut key = Vec::with_capacity(1 + name.iter().map(|part| part.len() + 1).sum::<usize>());
        key.push(Self::TABLE as u8);
        for (position, part) in name.into_iter().enumerate() {
            if position > 0 {
                key.push(0);
            }
            key.extend_from_slice(&part);
        }
        key
    }

    fn value(&self) -> Vec<u8> {
        let mut value = vec![ROW_VERSION];
        value.extend(pack::to_bytes(self));
        value
    }

    fn read(value: &[u8]) -> Result<Self, Corrupt> {
        match value.split_first() {
            Some((&ROW_VERSION, body)) => {
                pack::from_bytes(body).map_err(|error| Corrupt(format!("a row of table {:?}: {error}", Self::TABLE)))
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
