//! Locality of a caller.

/// Locality of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locality {
    pub region: String,
    pub zone: String,
    pub campus: String,
}

impl Locality {
    /// Returns the parts of this level and wider ones; 0 is the narrowest.
    pub(super) fn cut_below(&self, first: u32) -> Locality {
        let part = |level: u32, text: &str| if first <= level { text.to_owned() } else { String::new() };
        Locality { campus: part(0, &self.campus), zone: part(1, &self.zone), region: part(2, &self.region) }
    }
}
