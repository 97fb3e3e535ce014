use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::event::{Event, Stamped};
use crate::folder::RunFolder;
use crate::number;
use crate::tensorboard::TensorBoardFacts;
use crate::terminal::View;

/// How much of the end of a log is read first to find its last whole line. Most lines have a few hundred bytes.
const TAIL_BYTES: u64 = 64 * 1024;

/// Writes the events of a run to its `events.jsonl`, and shows each to the views.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    file: File,
    /// How long the file is up to its last whole line.
    length: u64,
    /// Whether part of a line that failed may stand after that, to be removed before the next one.
    torn: bool,
    started: Instant,
    views: Vec<View>,
    failed_writes: u64,
    /// Events that could not be written since the last that could.
    missing: u64,
}

impl Log {
    /// Opens the log of a new run, or of one that goes on: then the line that a crash left half-written is cut off,
    /// because anything after it would make it a broken line in the middle.
    pub fn open(folder: &RunFolder, started: Instant, views: Vec<View>) -> Result<Self> {
        let path = folder.events();
        let (file, length) = open_intact(&path).map_err(Error::io(&path))?;
        Ok(Self {
            folder: folder.path().to_owned(),
            file,
            length,
            torn: false,
            started,
            views,
            failed_writes: 0,
            missing: 0,
        })
    }

    /// Appends an event and shows it.
    ///
    /// A line that cannot be written, for instance because the disk is full, does not end the run: the training is
    /// worth more than its log. The views say so once, and [`failed_writes`](Self::failed_writes) counts. When lines
    /// can be written again, the first says how many are missing before it.
    pub fn record(&mut self, now: Instant, event: Event) {
        let at_s = now.saturating_duration_since(self.started).as_secs_f64();
        let stamped = Stamped { at_s, event };
        if let Err(error) = self.close_gap(at_s).and_then(|()| self.append(&stamped)) {
            self.failed_writes += 1;
            self.missing += 1;
            if self.missing == 1 {
                let events = self.folder.join("events.jsonl");
                let message = format!("{}: {error}; the run goes on, its log has gaps", events.display());
                self.show(&Stamped { at_s, event: Event::Warned { message } });
            }
        }
        self.show(&stamped);
    }

    /// Says in the log what it has missed, if it can say anything.
    fn close_gap(&mut self, at_s: f64) -> io::Result<()> {
        if self.missing == 0 {
            return Ok(());
        }
        let missing = number::of(self.missing, "event");
        let message = format!("the log can be written again: {missing} before this could not be");
        let stamped = Stamped { at_s, event: Event::Noted { message } };
        self.append(&stamped)?;
        self.missing = 0;
        self.show(&stamped);
        Ok(())
    }

    /// Tells TensorBoard of another model than the one that the run was to have. Before the first event.
    pub fn describe(&mut self, facts: &TensorBoardFacts) {
        for view in &mut self.views {
            if let View::TensorBoard(board) = view {
                board.facts = facts.clone();
            }
        }
    }

    /// Keeps how the values of tensors are spread after a round, for who has asked for that.
    pub fn histograms(&mut self, now: Instant, round: u64, tensors: &[(String, Vec<f32>)]) {
        let at_s = now.saturating_duration_since(self.started).as_secs_f64();
        for view in &mut self.views {
            if let View::TensorBoard(board) = view {
                board.histograms(&self.folder, at_s, round, tensors);
            }
        }
    }

    /// How many events could not be written.
    pub fn failed_writes(&self) -> u64 {
        self.failed_writes
    }

    fn append(&mut self, stamped: &Stamped) -> io::Result<()> {
        let mut line = serde_json::to_vec(stamped)?;
        line.push(b'\n');
        if is_removed(&self.file) {
            self.begin_again()?;
        }
        if self.torn {
            self.file.set_len(self.length)?;
        }
        // One write of the whole line: a kill leaves at most one broken line, and that the last.
        if let Err(error) = self.file.write_all(&line) {
            self.torn = self.file.set_len(self.length).is_err();
            return Err(error);
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// The file was removed: what is written to it is lost. There is a new one as soon as there is a folder for it.
    fn begin_again(&mut self) -> io::Result<()> {
        if self.missing == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed"));
        }
        (self.file, self.length) = open_intact(&self.folder.join("events.jsonl"))?;
        self.torn = false;
        Ok(())
    }

    fn show(&mut self, stamped: &Stamped) {
        for view in &mut self.views {
            view.show(&self.folder, stamped);
        }
    }
}

/// Whether no folder has the file any more.
#[cfg(unix)]
fn is_removed(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|facts| facts.nlink() == 0)
}

/// Elsewhere a file that is open cannot be removed.
#[cfg(not(unix))]
fn is_removed(_file: &File) -> bool {
    false
}

/// Every event of a log. A broken last line is what a crash leaves behind, and is not an event; any other broken
/// line is an error.
pub fn read_events(path: &Path) -> Result<Vec<Stamped>> {
    let bytes = fs::read(path).map_err(Error::io(path))?;
    let lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
    let mut events = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        match parse(line) {
            Ok(stamped) => events.push(stamped),
            Err(_) if index + 1 == lines.len() => {}
            Err(message) => return Err(Error::line(path, index + 1, message)),
        }
    }
    Ok(events)
}

/// The event of a line with its newline. Without one it is half-written, even if nothing else is missing.
fn parse(line: &[u8]) -> Result<Stamped, String> {
    let line = line.strip_suffix(b"\n").ok_or("the line has no end")?;
    serde_json::from_slice(line).map_err(|error| format!("is not an event of a run: {error}"))
}

/// Opens a log to append to, cut off after its last whole line, and says how long it is then.
fn open_intact(path: &Path) -> io::Result<(File, u64)> {
    let mut file = File::options().read(true).append(true).create(true).open(path)?;
    let length = file.metadata()?.len();
    let intact = intact_length(&mut file, length)?;
    if intact < length {
        file.set_len(intact)?;
    }
    Ok((file, intact))
}

/// The length without a broken last line. Only the end of the file is read: a long run's log is large, and the
/// memory for it would show in the peak that this run reports.
fn intact_length(file: &mut File, length: u64) -> io::Result<u64> {
    let mut window = TAIL_BYTES;
    loop {
        let start = length.saturating_sub(window);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.take(length - start).read_to_end(&mut tail)?;
        let Some(last) = tail.split_inclusive(|&byte| byte == b'\n').next_back() else { return Ok(0) };
        // The last line is whole in this window if the window begins before it, or with the file.
        if last.len() < tail.len() || start == 0 {
            let broken = if parse(last).is_err() { last.len() as u64 } else { 0 };
            return Ok(length - broken);
        }
        window *= 2;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sample;

    struct Scene {
        _temp: tempfile::TempDir,
        folder: RunFolder,
        started: Instant,
    }

    fn scene() -> Scene {
        let temp = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(&temp.path().join("run")).unwrap();
        Scene { _temp: temp, folder, started: Instant::now() }
    }

    impl Scene {
        fn record(&self, at_s: u64, event: Event) {
            let mut log = Log::open(&self.folder, self.started, Vec::new()).unwrap();
            log.record(self.started + Duration::from_secs(at_s), event);
            assert_eq!(log.failed_writes(), 0);
        }

        fn read(&self) -> Vec<Stamped> {
            read_events(&self.folder.events()).unwrap()
        }
    }

    #[test]
    fn events_are_read_back() {
        let scene = scene();
        let mut expect = Vec::new();
        for (at_s, event) in (0..).zip(sample::events()) {
            scene.record(at_s, event.clone());
            expect.push(Stamped { at_s: at_s as f64, event });
        }
        assert_eq!(scene.read(), expect);
    }

    #[test]
    fn a_log_may_live_on_any_thread() {
        fn check<T: Send>() {}
        check::<Log>();
    }

    #[test]
    fn a_clock_that_runs_behind_is_no_trouble() {
        let scene = scene();
        let mut log = Log::open(&scene.folder, scene.started + Duration::from_secs(9), Vec::new()).unwrap();
        log.record(scene.started, sample::progress(1));
        assert_eq!(scene.read()[0].at_s, 0.0);
    }

    #[test]
    fn a_broken_last_line_is_left_out_and_cut_off() {
        let long = format!("{{\"event\":\"noted\",\"message\":\"{}", "x".repeat(3 * TAIL_BYTES as usize));
        let whole = r#"{"at_s":1.0,"event":"interrupted","round":7}"#;
        for broken in ["{\"at_s\":1.0,\"eve", "\0\0\0", "\n", "nonsense\n", whole, &long] {
            let scene = scene();
            scene.record(1, sample::progress(1));
            let mut bytes = fs::read(scene.folder.events()).unwrap();
            bytes.extend_from_slice(broken.as_bytes());
            fs::write(scene.folder.events(), &bytes).unwrap();
            assert_eq!(scene.read().len(), 1, "after {broken:.20?}");

            scene.record(2, sample::progress(2));
            let events = scene.read();
            assert_eq!(events.len(), 2, "after {broken:.20?}");
            assert_eq!(events[1].event, sample::progress(2));
        }
    }

    #[test]
    fn a_first_line_that_is_broken_leaves_an_empty_log() {
        let scene = scene();
        fs::write(scene.folder.events(), "{\"at_s\":").unwrap();
        assert_eq!(scene.read(), []);
        scene.record(0, sample::started());
        assert_eq!(scene.read().len(), 1);
    }

    #[test]
    fn a_long_last_line_stays() {
        let scene = scene();
        scene.record(0, sample::started());
        scene.record(1, Event::Noted { message: "x".repeat(3 * TAIL_BYTES as usize) });
        scene.record(2, sample::progress(1));
        assert_eq!(scene.read().len(), 3);
    }

    #[test]
    fn any_other_broken_line_is_an_error() {
        let check = |text: &str, expect: &str| {
            let scene = scene();
            fs::write(scene.folder.events(), text).unwrap();
            let path = scene.folder.events();
            let error = read_events(&path).unwrap_err().to_string();
            assert_eq!(error.replace(&path.display().to_string(), "PATH"), expect);
        };
        let whole = r#"{"at_s":1.0,"event":"interrupted","round":7}"#;
        check(
            &format!("{whole}\n{{\"at_s\"\n{whole}\n"),
            "PATH:2: is not an event of a run: EOF while parsing an object at line 1 column 7",
        );
        check(
            &format!("\n{whole}\n"),
            "PATH:1: is not an event of a run: EOF while parsing a value at line 1 column 0",
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_gap_is_said_where_it_is() {
        let scene = scene();
        let screen = sample::Screen::default();
        let mut log = Log::open(&scene.folder, scene.started, vec![View::lines(screen.clone())]).unwrap();
        log.record(scene.started, sample::started());
        fs::remove_dir_all(scene.folder.path()).unwrap();
        for round in 1..=3 {
            log.record(scene.started, sample::progress(round));
        }
        assert_eq!(log.failed_writes(), 3);
        fs::create_dir(scene.folder.path()).unwrap();
        log.record(scene.started, sample::progress(4));
        let said = "the log can be written again: 3 events before this could not be";
        let expect = [Event::Noted { message: said.to_owned() }, sample::progress(4)];
        assert_eq!(scene.read().into_iter().map(|stamped| stamped.event).collect::<Vec<_>>(), expect);
        let shown = screen.text();
        for expect in ["events.jsonl: the file was removed; the run goes on, its log has gaps", said] {
            assert_eq!(shown.matches(expect).count(), 1, "{expect:?} in {shown}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_does_not_end_a_run() {
        let scene = scene();
        std::os::unix::fs::symlink("/dev/full", scene.folder.events()).unwrap();
        let screen = sample::Screen::default();
        let view = View::lines(screen.clone());
        let mut log = Log::open(&scene.folder, scene.started, vec![view]).unwrap();
        log.record(scene.started, sample::started());
        log.record(scene.started, sample::epoch_ended(1));
        log.record(scene.started, Event::Interrupted { round: 500 });
        assert_eq!(log.failed_writes(), 3);
        let shown = screen.text();
        assert_eq!(shown.matches("the run goes on, its log has gaps").count(), 1, "{shown}");
        assert!(shown.contains("epoch 1/5"), "{shown}");
    }
}
