//! Which host gets which role.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a process of a run is, as far as its place matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessRole {
    Head,
    /// The head, with the first worker in its process.
    #[serde(rename = "head and worker 0")]
    HeadAndWorker,
    /// The head, with the first relay in its process.
    #[serde(rename = "head and relay 0")]
    HeadAndRelay,
    Relay,
    Worker,
    /// Only sums for the workers.
    Server,
    Evaluator,
}

impl ProcessRole {
    /// What the process is beside the head, if it is the head.
    pub fn leads_as(self) -> Option<Self> {
        match self {
            Self::HeadAndWorker => Some(Self::Worker),
            Self::HeadAndRelay => Some(Self::Relay),
            Self::Head | Self::Relay | Self::Worker | Self::Server | Self::Evaluator => None,
        }
    }
}

impl fmt::Display for ProcessRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Head => "head",
            Self::HeadAndWorker => "head and worker 0",
            Self::HeadAndRelay => "head and relay 0",
            Self::Relay => "relay",
            Self::Worker => "worker",
            Self::Server => "server",
            Self::Evaluator => "evaluator",
        })
    }
}

/// The roles that no host is left for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    roles: Vec<ProcessRole>,
    places: usize,
    are_slots: bool,
}

/// For each role the number of its host, given how many processes each host may take: in the order of the inventory, a
/// host with several slots in a row.
pub fn in_order(roles: &[ProcessRole], slots: &[usize]) -> Result<Vec<usize>, Shortage> {
    let mut places: Vec<usize> =
        slots.iter().enumerate().flat_map(|(host, &slots)| std::iter::repeat_n(host, slots)).collect();
    if places.len() < roles.len() {
        let are_slots = slots.iter().any(|&slots| slots != 1);
        return Err(Shortage { roles: roles.to_vec(), places: places.len(), are_slots });
    }
    places.truncate(roles.len());
    Ok(places)
}

/// The same with the head and the relays on the quickest hosts; the others follow in the order of the inventory.
pub(crate) fn fastest_first(
    roles: &[ProcessRole],
    slots: &[usize],
    speeds: &[f64],
) -> Result<Vec<usize>, Shortage> {
    assert_eq!(slots.len(), speeds.len(), "every host has a speed");
    in_order(roles, slots)?;
    let mut free = slots.to_vec();
    let mut by_speed: Vec<usize> = (0..slots.len()).collect();
    by_speed.sort_by(|&a, &b| speeds[b].total_cmp(&speeds[a]));
    let leads = |role: &ProcessRole| {
        !matches!(role, ProcessRole::Worker | ProcessRole::Server | ProcessRole::Evaluator)
    };
    let mut quick = by_speed.iter().copied().filter(|&host| slots[host] > 0).cycle();
    let mut places: Vec<Option<usize>> = Vec::new();
    for role in roles {
        let place = if leads(role) { quick.by_ref().find(|&host| free[host] > 0) } else { None };
        if let Some(host) = place {
            free[host] -= 1;
        }
        places.push(place);
    }
    let mut rest = free.iter().enumerate().flat_map(|(host, &slots)| std::iter::repeat_n(host, slots));
    Ok(places.into_iter().filter_map(|place| place.or_else(|| rest.next())).collect())
}

/// `1 head, 2 relays and 4 workers`
fn in_words(roles: &[ProcessRole]) -> String {
    let names = [
        (ProcessRole::Head, "head"),
        (ProcessRole::HeadAndWorker, "head that is a worker"),
        (ProcessRole::HeadAndRelay, "head that is a relay"),
        (ProcessRole::Relay, "relay"),
        (ProcessRole::Worker, "worker"),
        (ProcessRole::Server, "server"),
        (ProcessRole::Evaluator, "evaluator"),
    ];
    let count = |role| roles.iter().filter(|&&other| other == role).count();
    let parts: Vec<String> = names
        .into_iter()
        .map(|(role, name)| (count(role), name))
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}{}", if count == 1 { "" } else { "s" }))
        .collect();
    match parts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => parts.concat(),
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = &self.roles[self.places..];
        let what = if self.are_slots { "slots" } else { "hosts" };
        let verb = if missing.len() == 1 { "is" } else { "are" };
        write!(
            f,
            "the run needs {}: {} {what}; the inventory has {}: {} {verb} missing",
            in_words(&self.roles),
            self.roles.len(),
            self.places,
            in_words(missing),
        )
    }
}

impl std::error::Error for Shortage {}

#[cfg(test)]
mod tests {
    use super::ProcessRole::{Evaluator, Head, HeadAndRelay, HeadAndWorker, Relay, Worker};
    use super::*;

    const HIERARCHY: &[ProcessRole] = &[Head, Relay, Worker, Worker, Relay, Worker, Worker];

    #[test]
    fn roles_go_down_the_inventory() {
        let check = |roles: &[ProcessRole], slots: &[usize], expect: &[usize]| {
            assert_eq!(in_order(roles, slots).as_deref(), Ok(expect), "{slots:?}");
        };
        check(&[Head, Worker, Worker], &[1, 1, 1], &[0, 1, 2]);
        check(&[Head, Worker, Worker], &[1, 1, 1, 1], &[0, 1, 2]);
        check(&[Head, Worker, Worker], &[1, 2], &[0, 1, 1]);
        check(&[Head, Worker, Worker], &[0, 2, 0, 1], &[1, 1, 3]);
        check(HIERARCHY, &[1; 7], &[0, 1, 2, 3, 4, 5, 6]);
        check(&[HeadAndWorker, Worker, Worker], &[1, 1, 1], &[0, 1, 2]);
    }

    #[test]
    fn too_few_hosts_are_said_in_words() {
        let check = |roles: &[ProcessRole], slots: &[usize], expect: &str| {
            assert_eq!(in_order(roles, slots).expect_err("too few").to_string(), expect);
        };
        check(
            HIERARCHY,
            &[1; 5],
            "the run needs 1 head, 2 relays and 4 workers: 7 hosts; the inventory has 5: 2 workers are missing",
        );
        check(
            &[Head, Worker, Evaluator],
            &[1, 1],
            "the run needs 1 head, 1 worker and 1 evaluator: 3 hosts; the inventory has 2: 1 evaluator is missing",
        );
        check(
            &[Head, Worker, Worker, Worker],
            &[1, 2],
            "the run needs 1 head and 3 workers: 4 slots; the inventory has 3: 1 worker is missing",
        );
        check(
            &[HeadAndWorker, Worker, Worker],
            &[1, 1],
            "the run needs 1 head that is a worker and 2 workers: 3 hosts; the inventory has 2: 1 worker is missing",
        );
    }

    #[test]
    fn who_leads_is_on_the_quickest_hosts() {
        let check = |roles: &[ProcessRole], slots: &[usize], speeds: &[f64], expect: &[usize]| {
            assert_eq!(fastest_first(roles, slots, speeds).as_deref(), Ok(expect), "{speeds:?}");
        };
        check(&[Head, Worker, Worker], &[1, 1, 1], &[1.0, 2.0, 9.0], &[2, 0, 1]);
        check(&[HeadAndWorker, Worker, Worker], &[1, 1, 1], &[1.0, 2.0, 9.0], &[2, 0, 1]);
        check(&[Head, Relay, Worker, Relay, Worker], &[1; 5], &[1.0, 5.0, 2.0, 9.0, 3.0], &[3, 1, 0, 4, 2]);
        // Equal hosts keep their order, and a host with two slots leads once before another leads twice.
        check(&[Head, Worker], &[1, 1], &[3.0, 3.0], &[0, 1]);
        check(&[Head, Relay, Worker, Worker], &[2, 2], &[1.0, 2.0], &[1, 0, 0, 1]);
        assert!(fastest_first(HIERARCHY, &[1, 1], &[1.0, 2.0]).is_err());
    }

    #[test]
    fn records_say_roles_in_the_same_words_as_people_read() {
        for role in [Head, HeadAndWorker, HeadAndRelay, Relay, Worker, Evaluator] {
            assert_eq!(serde_json::to_value(role).expect("JSON"), role.to_string());
        }
    }
}
