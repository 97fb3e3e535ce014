use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A repository on a sleeping network disk must not keep a run from ending.
const DEADLINE: Duration = Duration::from_secs(5);
/// A larger difference is data that someone forgot to ignore.
const OUTPUT_LIMIT: usize = 4 * 1024 * 1024;
/// How often a child that has closed its output is asked whether it has ended, which it does at once.
const POLL: Duration = Duration::from_millis(2);
/// What a repository without a commit differs from: the tree without files, which git knows without storing it.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// From which state of a repository a run was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitFacts {
    /// `None` before the first commit.
    pub commit: Option<String>,
    /// `None` if no branch is checked out.
    pub branch: Option<String>,
    /// Changed and untracked files, as `git status --porcelain` lists them.
    pub status: String,
    /// What is changed from the commit, staged or not.
    pub diff: String,
    /// Whether the status or the diff was too long, or took too long, to have all of it here.
    pub truncated: bool,
}

impl GitFacts {
    /// The state of the repository that `folder` is in. `None` if it is in none, or there is no git here.
    pub fn collect(folder: &Path) -> Option<Self> {
        Self::collect_until(folder, Instant::now() + DEADLINE, OUTPUT_LIMIT)
    }

    /// The same on a thread of its own, so that training does not wait for it. Nothing is sent if the thread could
    /// not be started.
    pub fn collect_in_background(folder: PathBuf) -> Receiver<Option<Self>> {
        let (send, facts) = sync_channel(1);
        // Both may fail, and in both cases there is no one to tell: the receiver sees a closed channel.
        let _ = thread::Builder::new().name("git-facts".into()).spawn(move || {
            let _ = send.send(Self::collect(&folder));
        });
        facts
    }

    fn collect_until(folder: &Path, deadline: Instant, limit: usize) -> Option<Self> {
        let git = |arguments: &[&str]| run(folder, arguments, deadline, limit);
        git(&["rev-parse", "--git-dir"])?.whole()?;
        let commit = git(&["rev-parse", "--verify", "--quiet", "HEAD"])?.whole();
        let branch = git(&["symbolic-ref", "--short", "--quiet", "HEAD"])?.whole();
        let status = git(&["status", "--porcelain"])?;
        let from = if commit.is_some() { "HEAD" } else { EMPTY_TREE };
        let diff = git(&["diff", "--no-color", "--no-ext-diff", "--no-textconv", from])?;
        Some(Self {
            commit,
            branch,
            truncated: status.truncated || diff.truncated,
            status: status.text,
            diff: diff.text,
        })
    }
}

/// What a child wrote until it ended, reached the limit or met the deadline.
#[derive(Debug)]
struct GitOutput {
    text: String,
    truncated: bool,
    succeeded: bool,
}

impl GitOutput {
    /// The text without its newline, of a child that came to a good end.
    fn whole(self) -> Option<String> {
        (self.succeeded && !self.truncated).then(|| self.text.trim_end().to_owned())
    }
}

fn run(folder: &Path, arguments: &[&str], deadline: Instant, limit: usize) -> Option<GitOutput> {
    let mut child = git(folder, arguments).spawn().ok()?;
    let mut pipe = child.stdout.take()?.take(limit as u64 + 1);
    let (send, bytes) = sync_channel(1);
    let reader = thread::Builder::new().name("git-output".into()).spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still worth having.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    let received = match reader {
        Ok(_) => bytes.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok(),
        Err(_) => None,
    };
    let truncated = received.as_ref().is_none_or(|bytes| bytes.len() > limit);
    let succeeded = end(&mut child, if truncated { Instant::now() } else { deadline });
    let mut bytes = received.unwrap_or_default();
    bytes.truncate(limit);
    Some(GitOutput { text: String::from_utf8_lossy(&bytes).into_owned(), truncated, succeeded })
}

/// Git in `folder`, which alone decides the repository: variables that a hook or a script has set do not. It takes
/// no locks, asks nothing and starts no other program, so that it cannot get into the way of the user's own git.
fn git(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["--no-pager", "-c", "core.fsmonitor=false"]).args(arguments);
    command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
    command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Waits for a child until the deadline, then kills it. Says whether it succeeded.
fn end(child: &mut Child, deadline: Instant) -> bool {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => thread::sleep(POLL),
            _ => break,
        }
    }
    // It may have ended in between; either way it is gone after this.
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Runs git as a user would; `false` if there is none.
    fn user(folder: &Path, arguments: &[&str]) -> bool {
        let identity =
            ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false"];
        let mut command = git(folder, &[]);
        let Ok(output) = command.args(identity).args(arguments).output() else { return false };
        assert!(output.status.success(), "git {arguments:?}");
        true
    }

    /// A repository with a staged, an unstaged and an untracked change, or `None` without git.
    fn repository() -> Option<tempfile::TempDir> {
        let temp = tempfile::tempdir().unwrap();
        if !user(temp.path(), &["init", "--quiet", "--initial-branch=trunk"]) {
            eprintln!("SKIPPED: there is no git here, so the facts of a repository are not tested");
            return None;
        }
        for name in ["staged.txt", "unstaged.txt", "same.txt"] {
            fs::write(temp.path().join(name), "before\n").unwrap();
        }
        Some(temp)
    }

    fn commit_and_change(folder: &Path) {
        user(folder, &["add", "."]);
        user(folder, &["commit", "--quiet", "--message=first"]);
        fs::write(folder.join("staged.txt"), "staged change\n").unwrap();
        user(folder, &["add", "staged.txt"]);
        fs::write(folder.join("unstaged.txt"), "unstaged change\n").unwrap();
        fs::write(folder.join("untracked.txt"), "new\n").unwrap();
    }

    #[test]
    fn staged_and_unstaged_changes_are_facts() {
        let Some(temp) = repository() else { return };
        commit_and_change(temp.path());
        fs::create_dir(temp.path().join("deeper")).unwrap();
        let facts = GitFacts::collect(&temp.path().join("deeper")).unwrap();
        assert!(facts.commit.as_ref().is_some_and(|commit| commit.len() >= 40), "{facts:?}");
        assert_eq!(facts.branch.as_deref(), Some("trunk"));
        assert_eq!(facts.status, "M  staged.txt\n M unstaged.txt\n?? untracked.txt\n");
        assert!(facts.diff.contains("-before\n+staged change\n"), "{}", facts.diff);
        assert!(facts.diff.contains("-before\n+unstaged change\n"), "{}", facts.diff);
        assert!(!facts.diff.contains("same.txt") && !facts.truncated);

        user(temp.path(), &["checkout", "--quiet", "--detach"]);
        let again = GitFacts::collect_in_background(temp.path().to_owned()).recv().unwrap();
        assert_eq!(again, Some(GitFacts { branch: None, ..facts }));
    }

    #[test]
    fn a_repository_without_commits_has_facts() {
        let Some(temp) = repository() else { return };
        user(temp.path(), &["add", "staged.txt"]);
        let facts = GitFacts::collect(temp.path()).unwrap();
        assert_eq!((facts.commit, facts.branch.as_deref()), (None, Some("trunk")));
        assert!(facts.status.contains("A  staged.txt\n") && facts.diff.contains("+before\n"));
    }

    #[test]
    fn too_much_is_cut_off() {
        let Some(temp) = repository() else { return };
        commit_and_change(temp.path());
        fs::write(temp.path().join("same.txt"), "x\n".repeat(100_000)).unwrap();
        let limit = 1000;
        let deadline = Instant::now() + Duration::from_secs(60);
        let facts = GitFacts::collect_until(temp.path(), deadline, limit).unwrap();
        assert!(facts.truncated && facts.diff.len() == limit);
        assert!(facts.commit.is_some());
    }

    #[test]
    fn what_takes_too_long_is_left_out() {
        let Some(temp) = repository() else { return };
        let deadline = Instant::now() + Duration::from_millis(50);
        let output =
            run(temp.path(), &["-c", "alias.wait=!sleep 3", "wait"], deadline, OUTPUT_LIMIT).unwrap();
        assert!(output.truncated && !output.succeeded && output.text.is_empty());
        assert_eq!(output.whole(), None);
    }

    #[test]
    fn elsewhere_there_are_no_facts() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(GitFacts::collect(temp.path()), None);
        assert_eq!(GitFacts::collect(&temp.path().join("missing")), None);
    }
}
