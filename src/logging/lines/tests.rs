use std::fs::File;
use std::io::{PipeReader, Read, pipe};
use std::os::fd::OwnedFd;

use prometheus::IntCounter;

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

fn start(stream: impl Into<OwnedFd>, format: LogFormat) -> (LineQueue, IntCounter) {
    let queue = LineQueue::start("log", stream.into(), Some(format)).expect("a thread");
    let lost = IntCounter::new("lost", "Lost lines.").expect("a counter");
    queue.lost().count_in(&lost);
    (queue, lost)
}

fn read_until(reader: &mut PipeReader, end: &str) -> String {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    while !text.ends_with(end) {
        let read = reader.read(&mut bytes).expect("a pipe");
        assert!(read > 0, "it ends with {text:?}");
        text.push_str(std::str::from_utf8(&bytes[..read]).expect("text"));
    }
    text
}

#[test]
fn lines_are_written_in_their_order_and_flushed() {
    let (mut reader, writer) = pipe().expect("a pipe");
    let (queue, lost) = start(writer, LogFormat::Text);
    let lines: String = (0..500).map(|number| format!("line {number}\n")).collect();
    lines.split_inclusive('\n').for_each(|line| queue.push(line.as_bytes()));
    queue.flush(LIMIT);
    assert_eq!((read_until(&mut reader, "line 499\n"), lost.get()), (lines, 0));
}

/// The reader has ended, or the disk is full.
#[test]
fn lines_that_cannot_be_written_are_counted_and_the_thread_goes_on() {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    let full = File::options().write(true).open("/dev/full").expect("a device");
    for stream in [OwnedFd::from(writer), full.into()] {
        let (queue, lost) = start(stream, LogFormat::Text);
        for count in 1..=3 {
            queue.push(b"one\ntwo\n");
            queue.flush(LIMIT);
            assert_eq!(lost.get(), 2 * count);
        }
    }
}

/// The queue is full. The caller does not wait, and the loss is reported in its place between the lines.
#[test]
fn a_reader_that_does_not_read_costs_lines_and_no_time() {
    let (mut reader, writer) = pipe().expect("a pipe");
    let (queue, lost) = start(writer, LogFormat::Text);
    let line = format!("{}\n", "x".repeat(999));
    let pushed = 3 * LOG_QUEUE_BYTES_MAX / line.len();
    (0..pushed).for_each(|_| queue.push(line.as_bytes()));
    let dropped = lost.get();
    assert!(dropped > 0, "nothing is lost of {pushed} lines");
    queue.flush(Duration::ZERO);
    let read = std::thread::spawn(move || read_until(&mut reader, "last\n"));
    queue.flush(LIMIT);
    queue.push(b"last\n");
    let text = read.join().expect("no panic");
    let (whole, others): (Vec<&str>, Vec<&str>) = text.lines().partition(|one| *one == line.trim_end());
    let Some((&"last", reports)) = others.split_last() else { panic!("{others:?}") };
    let reported = reports.iter().map(|report| {
        assert!(report.contains(" WARN thuban::logging::lines: "), "{report}");
        report.rsplit("lines=").next().and_then(|number| number.parse::<u64>().ok()).expect("a number")
    });
    assert_eq!((reported.sum::<u64>(), whole.len() as u64 + dropped), (dropped, pushed as u64));
}

/// The loss is reported on a line of its own once space becomes free, even if nothing else is logged.
#[test]
fn a_loss_is_reported_when_the_stream_takes_lines_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, (reader, writer)) = (dir.path().join("log"), pipe().expect("a pipe"));
    let shared = {
        let (waiting, changed, drained, lost) = Default::default();
        Arc::new(LineQueueState { waiting, changed, drained, lost })
    };
    drop(reader);
    let mut broken = LineWriter {
        shared,
        stream: OwnedFd::from(writer),
        reported_as: Some(LogFormat::Json),
        lost: 0,
        is_within_line: false,
    };
    assert!(!broken.put(b"a\nb\n") && broken.lost == 2);
    broken.is_within_line = true;
    broken.stream = File::create(&path).expect("a file").into();
    assert!(broken.put(b""), "the stream takes lines again");
    assert_eq!(broken.lost, 0);
    let text = std::fs::read_to_string(path).expect("text");
    let line: serde_json::Value = serde_json::from_str(text.strip_prefix('\n').expect("a new line")).expect("JSON");
    assert_eq!((&line["fields"]["lines"], &line["level"]), (&2.into(), &"WARN".into()), "{text}");
}
