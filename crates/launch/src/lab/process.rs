use std::fs;

use serde::{Deserialize, Serialize};

/// A process by its number and the time it was started, because numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub id: u32,
    started: u64,
}

impl Process {
    /// The process that has this number now.
    pub fn of(id: u32) -> Option<Self> {
        stat(id).map(|(started, _)| Self { id, started })
    }

    /// Whether it is still there, and not just waiting to be reaped.
    pub fn runs(self) -> bool {
        stat(self.id).is_some_and(|(started, state)| started == self.started && state != "Z")
    }
}

/// When a process was started, in ticks since the machine was, and its state.
fn stat(id: u32) -> Option<(u64, String)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name stands in parentheses and may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(19)?.parse().ok()?, (*fields.first()?).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::Process;

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mine = Process::of(std::process::id()).expect("this process");
        assert!(mine.runs());
        assert!(!Process { started: mine.started + 1, ..mine }.runs());
        assert_eq!(Process::of(u32::MAX), None);
    }
}
