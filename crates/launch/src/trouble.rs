//! Why a host cannot be used, in words for who can do something about it.

use std::fmt;

/// What is wrong with a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    NameUnknown(String),
    Refused,
    NoRoute,
    TimedOut,
    /// The host knows the user, or says so, but takes none of the keys.
    KeyRefused {
        user: Option<String>,
    },
    KeyUnreadable(String),
    HostKeyChanged,
    HostKeyUnknown,
    DiskFull(String),
    NoSsh(String),
    /// The connection broke while it was in use.
    Lost(String),
    Other(String),
}

impl Trouble {
    /// The same for a program that was running there: ssh has no last words when the login that it shares is gone.
    pub fn of_broken(stderr: &str) -> Self {
        if stderr.trim().is_empty() {
            Self::Lost("nothing is heard of it".to_owned())
        } else {
            Self::of_ssh(stderr)
        }
    }

    /// Whether it is the list of hosts that is wrong, or what it names, and not the host.
    pub fn is_mistake(&self) -> bool {
        matches!(self, Self::NameUnknown(_) | Self::KeyRefused { .. } | Self::KeyUnreadable(_))
    }

    /// What the ssh program meant by its last words.
    pub fn of_ssh(stderr: &str) -> Self {
        let has = |fragment: &str| stderr.contains(fragment);
        if has("REMOTE HOST IDENTIFICATION HAS CHANGED") {
            return Self::HostKeyChanged;
        }
        if has("Host key verification failed") || has("host key is known for") {
            return Self::HostKeyUnknown;
        }
        if has("Could not resolve hostname") {
            let name = between(stderr, "Could not resolve hostname ", ":").unwrap_or("it");
            return Self::NameUnknown(name.to_owned());
        }
        if let Some(line) = stderr
            .lines()
            .find(|line| line.contains("UNPROTECTED PRIVATE KEY FILE") || line.starts_with("Load key "))
        {
            return Self::KeyUnreadable(line.trim_matches(['@', ' ']).to_owned());
        }
        if has("Permission denied (") || has("Too many authentication failures") {
            let user = stderr.lines().find(|line| line.contains(": Permission denied ("));
            let user = user.and_then(|line| Some(line.split_once('@')?.0.trim().to_owned()));
            return Self::KeyRefused { user };
        }
        if has("Connection refused") {
            return Self::Refused;
        }
        if has("No route to host") || has("Network is unreachable") {
            return Self::NoRoute;
        }
        if has("timed out") || has("Timeout, server") {
            return Self::TimedOut;
        }
        if is_disk_full(stderr) {
            return Self::DiskFull(last_line(stderr));
        }
        if has("Connection closed by") || has("Connection reset by") || has("Broken pipe") {
            return Self::Lost(last_line(stderr));
        }
        Self::Other(last_line(stderr))
    }
}

/// Whether a program on the other side complains of the disk.
pub(crate) fn is_disk_full(stderr: &str) -> bool {
    stderr.contains("No space left on device") || stderr.contains("Disk quota exceeded")
}

/// The last line that says something.
pub(crate) fn last_line(text: &str) -> String {
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    line.unwrap_or("it did not say why").to_owned()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameUnknown(name) => write!(f, "the name {name} is not known; give its address in the inventory"),
            Self::Refused => f.write_str("the connection was refused; does sshd run there, on this port?"),
            Self::NoRoute => f.write_str("there is no way to it; is it on, and on this network?"),
            Self::TimedOut => f.write_str("it did not answer in time; is it on, and does a firewall let ssh through?"),
            Self::KeyRefused { user } => {
                let user = user.as_deref().unwrap_or("this user");
                write!(
                    f,
                    "it takes no key of ours for {user}; is that the right user? `ssh-copy-id` puts a key there"
                )
            }
            Self::KeyUnreadable(line) => write!(f, "the private key cannot be used: {line}"),
            Self::HostKeyChanged => f.write_str(
                "its host key has changed; if it was set up anew, `ssh-keygen -R` forgets the old key, otherwise \
                 somebody else may answer in its place",
            ),
            Self::HostKeyUnknown => {
                f.write_str("its host key is not known here; log in once by hand (`ssh`) and accept it")
            }
            Self::DiskFull(line) => write!(f, "its disk is full: {line}"),
            Self::NoSsh(error) => write!(f, "ssh cannot be started here: {error}"),
            Self::Lost(line) => write!(f, "the connection broke: {line}"),
            Self::Other(line) => f.write_str(line),
        }
    }
}

impl std::error::Error for Trouble {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_ssh_are_understood() {
        let check = |stderr: &str, expect: Trouble| assert_eq!(Trouble::of_ssh(stderr), expect, "{stderr}");
        check(
            "ssh: Could not resolve hostname pi9.local: Name or service not known",
            Trouble::NameUnknown("pi9.local".into()),
        );
        check("ssh: connect to host 10.0.0.9 port 22: Connection refused", Trouble::Refused);
        check("ssh: connect to host 10.0.0.9 port 22: No route to host", Trouble::NoRoute);
        check("ssh: connect to host 10.0.0.9 port 22: Connection timed out", Trouble::TimedOut);
        check("Connection timed out during banner exchange", Trouble::TimedOut);
        check("Timeout, server 10.0.0.9 not responding.", Trouble::TimedOut);
        check(
            "Warning: Permanently added '[x]:1' to the list.\npi@10.0.0.9: Permission denied (publickey,password).",
            Trouble::KeyRefused { user: Some("pi".into()) },
        );
        check(
            "@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.",
            Trouble::HostKeyChanged,
        );
        check(
            "No ED25519 host key is known for 10.0.0.9 and you have requested strict checking.\n\
             Host key verification failed.",
            Trouble::HostKeyUnknown,
        );
        check(
            "Load key \"/k\": Permission denied\npi@h: Permission denied (publickey).",
            Trouble::KeyUnreadable("Load key \"/k\": Permission denied".into()),
        );
        check(
            "cat: write error: No space left on device",
            Trouble::DiskFull("cat: write error: No space left on device".into()),
        );
        check("Connection reset by peer", Trouble::Lost("Connection reset by peer".into()));
        check("something new\n\n", Trouble::Other("something new".into()));
        check("", Trouble::Other("it did not say why".into()));
        assert_eq!(Trouble::of_broken("\n"), Trouble::Lost("nothing is heard of it".into()));
        assert_eq!(Trouble::of_broken("Connection refused"), Trouble::Refused);
    }
}
