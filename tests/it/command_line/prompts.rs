//! Password prompts on a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::harness::binary;

const LIMIT: Duration = Duration::from_secs(60);
const PROMPT: &str = "Password: ";

/// A command on a terminal of its own.
struct Terminal {
    master: File,
    /// Held open, so that the terminal is there when the command is not.
    _slave: File,
    child: Child,
    told: Receiver<Vec<u8>>,
    text: String,
}

impl Terminal {
    fn run(arguments: &[&str]) -> Terminal {
        let master = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal"));
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal");
        let name = ptsname(&master, Vec::new()).expect("its name").into_string().expect("text");
        let open = || {
            let flags = OpenptFlags::NOCTTY.bits() as i32;
            File::options().read(true).write(true).custom_flags(flags).open(&name).expect("its other end")
        };
        let shows = tcgetattr(&master).expect("a terminal").local_modes.contains(LocalModes::ECHO);
        assert!(shows, "a terminal shows what is typed");
        let mut command = Command::new("setsid");
        for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("THUBAN_")) {
            command.env_remove(variable);
        }
        command.args(["--ctty", binary()]).args(arguments).env("XDG_CONFIG_HOME", "/nonexistent");
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().expect("it starts");
        let (tell, told) = channel();
        let mut output = master.try_clone().expect("the same terminal");
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let _ = tell.send(bytes[..count].to_vec());
            }
        });
        Terminal { _slave: open(), master, child, told, text: String::new() }
    }

    /// Waits until this is on the screen.
    fn expect(&mut self, words: &str) {
        let until = Instant::now() + LIMIT;
        while !self.text.contains(words) {
            let left = until.saturating_duration_since(Instant::now());
            let bytes = self.told.recv_timeout(left).unwrap_or_else(|_| panic!("no {words:?} in {:?}", self.text));
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    fn shows_what_is_typed(&self) -> bool {
        tcgetattr(&self.master).expect("a terminal").local_modes.contains(LocalModes::ECHO)
    }

    fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("typed");
    }

    /// The status of its end, that of a shell where a signal ended it.
    fn end(&mut self) -> i32 {
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code().or(status.signal().map(|signal| 128 + signal)).expect("a status");
            }
            assert!(Instant::now() < until, "it goes on: {:?}", self.text);
            // Its output has to be read meanwhile.
            if let Ok(bytes) = self.told.recv_timeout(Duration::from_millis(20)) {
                self.text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

const LOGIN: [&str; 3] = ["login", "--endpoint", "http://127.0.0.1:1"];

#[test]
fn nothing_that_is_typed_is_shown_from_the_prompt_on() {
    for _ in 0..5 {
        let mut terminal = Terminal::run(&LOGIN);
        terminal.expect(PROMPT);
        assert!(!terminal.shows_what_is_typed(), "asked before it was hidden");
        terminal.type_in("battery staple\n");
        assert_eq!(terminal.end(), 4, "{}", terminal.text);
        terminal.expect("no answer");
        assert!(!terminal.text.contains("battery"), "{}", terminal.text);
        assert!(terminal.shows_what_is_typed(), "hidden for good");
    }
}

#[test]
fn a_terminal_shows_again_what_is_typed_when_the_question_is_interrupted() {
    for (signal, code) in [(None, 130), (Some(Signal::INT), 130), (Some(Signal::TERM), 143), (Some(Signal::HUP), 129)] {
        let mut terminal = Terminal::run(&LOGIN);
        terminal.expect(PROMPT);
        terminal.type_in("half");
        match signal {
            Some(signal) => kill_process(Pid::from_child(&terminal.child), signal).expect("sent"),
            None => terminal.type_in("\u{3}"),
        }
        assert_eq!(terminal.end(), code, "{signal:?} {}", terminal.text);
        assert!(terminal.shows_what_is_typed(), "{signal:?}: hidden for good");
        assert!(!terminal.text.contains("half"), "{}", terminal.text);
    }
}
