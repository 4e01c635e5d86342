//! Cache of renderings of released files: made for the first request, and shared while there is room.
//!
//! A publication to thousands of clients costs one rendering of each requested form; concurrent requests wait for it.
//! The size of the cache is limited in bytes for all files together, and the least used renderings are evicted first. A
//! rendering larger than one shard (a quarter) is made for each request. For clients that accept it, a rendering of
//! usual size is compressed once and cached as well, so such a file takes its compressed bytes in addition.

use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::compression::{Accepted, Coding};
use crate::metrics::Metrics;
use crate::model::config_lookup::{Released, ReleasedId, Rendering, Unreadable};

/// Shards, each with a lock and a share of the bytes. The largest cached rendering fits one shard.
const PARTS: usize = 4;
/// Bytes of a usual rendering, by which the cache sizes its history of evicted entries.
const USUAL_BYTES: u64 = 4096;
/// Least number of renderings that the cache is sized for: fewer are not worth four shards.
const RENDERINGS_MIN: usize = 128;
/// Overhead of a cached rendering, in bytes.
const OVERHEAD_BYTES: u64 = 128;

/// A form of a released file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenderedForm {
    /// The clear text of an encrypted file.
    Clear,
    /// The pairs as JSON.
    Pairs,
    /// The pairs as properties text.
    Properties,
    /// The object of `/configs` for a request by the stored file name.
    Object,
    /// The same for a request that adds or omits the suffix of properties.
    ObjectByOtherName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RenderingKey {
    released: ReleasedId,
    form: RenderedForm,
    coding: Coding,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<RenderingKey, Rendering> for Bytes {
    fn weight(&self, _: &RenderingKey, rendering: &Rendering) -> u64 {
        OVERHEAD_BYTES + rendering.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }
}

pub(super) struct Renderings {
    /// The cache; `None` if it is turned off.
    kept: Option<Cache<RenderingKey, Rendering, Bytes>>, // bound: renderings
    /// Largest content whose renderings are compressed, in bytes: they fit a shard, so they are not compressed for each
    /// request.
    compressed_max: usize,
    metrics: Arc<Metrics>,
}

impl Renderings {
    /// Creates a cache of at most `bytes_max` bytes; 0 turns it off.
    pub(super) fn new(bytes_max: u64, metrics: Arc<Metrics>) -> Self {
        let usual = usize::try_from(bytes_max / USUAL_BYTES).unwrap_or(usize::MAX).max(RENDERINGS_MIN);
        let parts = PARTS as u64;
        let mut options = OptionsBuilder::new();
        options.shards(PARTS).estimated_items_capacity(usual).weight_capacity(bytes_max / parts * parts);
        let options = options.build().expect("both capacities are given");
        let (hashing, cycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let kept = (bytes_max > 0).then(|| Cache::with_options(options, Bytes, hashing, cycle));
        let compressed_max = usize::try_from(bytes_max / parts / 2).unwrap_or(usize::MAX);
        Renderings { kept, compressed_max, metrics }
    }

    /// Returns the coding in which a client gets a file.
    pub(super) fn coding(&self, released: &Released, accepted: Accepted) -> Coding {
        let bytes = released.content.text().map_or(0, |text| text.len());
        let is_usual = self.kept.is_some() && bytes <= self.compressed_max;
        if is_usual && accepted.is_worth(bytes) { Coding::Gzip } else { Coding::Identity }
    }

    /// Returns a form of a file in a coding from the cache, or calls `render`.
    pub(super) fn of(
        &self,
        released: &Released,
        form: RenderedForm,
        coding: Coding,
        render: impl FnOnce() -> Rendering,
    ) -> Rendering {
        let Some(kept) = &self.kept else { return render() };
        let key = RenderingKey { released: released.identity, form, coding };
        match kept.get_value_or_guard(&key, None) {
            GuardResult::Value(rendering) => {
                self.metrics.render_cache_hits.inc();
                rendering
            }
            GuardResult::Guard(place) => {
                let rendering = render();
                self.metrics.render_cache_misses.inc();
                // A temporary failure to read is not cached.
                if rendering != Err(Unreadable::Absent) {
                    drop(place.insert(rendering.clone()));
                }
                self.metrics.render_cache_bytes.set(i64::try_from(kept.weight()).unwrap_or(i64::MAX));
                rendering
            }
            GuardResult::Timeout => render(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config_file::Format;

    const FORMS: [RenderedForm; 5] = [
        RenderedForm::Clear,
        RenderedForm::Pairs,
        RenderedForm::Properties,
        RenderedForm::Object,
        RenderedForm::ObjectByOtherName,
    ];

    fn renderings(bytes_max: u64) -> Renderings {
        Renderings::new(bytes_max, Arc::new(Metrics::new().expect("a table")))
    }

    fn released(version: u64) -> Released {
        Released::new("n", "g", "f", version, Format::Text, "".into())
    }

    fn of_bytes(length: usize) -> Rendering {
        Ok(vec![b'x'; length].into())
    }

    #[test]
    fn a_form_of_a_release_is_rendered_once_and_shared() {
        let kept = renderings(1024 * 1024);
        for (version, form) in (1..=3).flat_map(|version| FORMS.map(|form| (version, form))) {
            let made = kept.of(&released(version), form, Coding::Identity, || of_bytes(10)).expect("rendered");
            let found = kept.of(&released(version), form, Coding::Identity, || panic!("it is kept")).expect("rendered");
            assert_eq!(made.as_ptr(), found.as_ptr(), "{version} {form:?}");
        }
        let (hits, misses) = (kept.metrics.render_cache_hits.get(), kept.metrics.render_cache_misses.get());
        assert_eq!((hits, misses, kept.metrics.render_cache_bytes.get()), (15, 15, 15 * 138));
    }

    #[test]
    fn without_room_each_request_is_rendered_for() {
        let kept = renderings(0);
        let pointers = [(); 2]
            .map(|()| kept.of(&released(1), RenderedForm::Pairs, Coding::Identity, || of_bytes(10)).expect("rendered"));
        assert_ne!(pointers[0].as_ptr(), pointers[1].as_ptr());
        assert_eq!((kept.metrics.render_cache_bytes.get(), kept.metrics.render_cache_hits.get()), (0, 0));
    }

    #[test]
    fn what_is_kept_has_a_bound_and_what_is_asked_for_often_stays() {
        let bytes_max = 256 * 1024;
        let kept = renderings(bytes_max);
        let popular = |is_kept: bool| {
            let render = || if is_kept { panic!("it is kept") } else { of_bytes(1000) };
            kept.of(&released(0), RenderedForm::Object, Coding::Identity, render).expect("rendered");
        };
        popular(false);
        popular(true);
        for version in 1..2000 {
            let length = usize::try_from(version * 7919 % 70_000).expect("small");
            kept.of(&released(version), RenderedForm::Object, Coding::Identity, || of_bytes(length)).expect("rendered");
            assert!(u64::try_from(kept.metrics.render_cache_bytes.get()).expect("a size") <= bytes_max);
            popular(true);
        }
        assert!(kept.metrics.render_cache_bytes.get() > 0);
        // A rendering larger than a quarter is not cached, and evicts nothing.
        let before = kept.metrics.render_cache_bytes.get();
        for _ in 0..2 {
            let misses = kept.metrics.render_cache_misses.get();
            kept.of(&released(5000), RenderedForm::Object, Coding::Identity, || of_bytes(70_000)).expect("rendered");
            assert_eq!(kept.metrics.render_cache_misses.get(), misses + 1);
        }
        assert_eq!(kept.metrics.render_cache_bytes.get(), before);
        popular(true);
    }

    #[test]
    fn contents_of_a_usual_size_are_compressed_for_who_accepts_it() {
        let of_content = |bytes: usize| Released::new("n", "g", "f", 1, Format::Text, (&*"x".repeat(bytes)).into());
        for (bytes_max, bytes, accepted, expected) in [
            (8 * 1024, 1024, Accepted::Gzip, Coding::Gzip),
            (8 * 1024, 1024, Accepted::Identity, Coding::Identity),
            (8 * 1024, 1023, Accepted::Gzip, Coding::Identity),
            (8 * 1024, 1, Accepted::GzipAlone, Coding::Gzip),
            (8 * 1024, 1025, Accepted::Gzip, Coding::Identity),
            (0, 1024, Accepted::GzipAlone, Coding::Identity),
        ] {
            let coding = renderings(bytes_max).coding(&of_content(bytes), accepted);
            assert_eq!(coding, expected, "{bytes_max} {bytes} {accepted:?}");
        }
        let kept = renderings(1024 * 1024);
        for coding in [Coding::Identity, Coding::Gzip] {
            let made = kept.of(&released(1), RenderedForm::Clear, coding, || of_bytes(10)).expect("rendered");
            let found = kept.of(&released(1), RenderedForm::Clear, coding, || panic!("it is kept")).expect("rendered");
            assert_eq!(made.as_ptr(), found.as_ptr(), "{coding:?}");
        }
        assert_eq!(kept.metrics.render_cache_bytes.get(), 2 * 138);
    }
}
