//! The data sets that have a name.

use std::path::PathBuf;

/// A data set that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub name: &'static str,
    /// What it is, in one line.
    pub description: &'static str,
    /// How many samples it has to train on: for made data, unless told otherwise.
    pub train: usize,
    /// How many samples it has to measure on.
    pub test: usize,
    /// Whether it is made from a seed, so that nothing needs to be fetched.
    pub made: bool,
}

/// All data sets that have a name, those that need no download first.
pub const KNOWN: &[Known] = &[
    Known {
        name: "digits",
        description: "digits drawn by pen strokes, 28 x 28",
        train: 20_000,
        test: 4_000,
        made: true,
    },
    Known {
        name: "grammar",
        description: "English-like sentences with universal POS tags",
        train: 8_000,
        test: 1_000,
        made: true,
    },
    Known {
        name: "reviews",
        description: "product reviews with one to five stars",
        train: 20_000,
        test: 2_000,
        made: true,
    },
    Known {
        name: "fashion-mnist",
        description: "photographs of clothes, 28 x 28",
        train: 60_000,
        test: 10_000,
        made: false,
    },
    Known {
        name: "mnist",
        description: "handwritten digits, 28 x 28",
        train: 60_000,
        test: 10_000,
        made: false,
    },
    Known {
        name: "cifar-10",
        description: "photographs of ten kinds of things, 32 x 32 in colour",
        train: 50_000,
        test: 10_000,
        made: false,
    },
    Known {
        name: "cifar-100",
        description: "photographs of a hundred kinds of things, 32 x 32 in colour",
        train: 50_000,
        test: 10_000,
        made: false,
    },
    Known {
        name: "svhn",
        description: "house numbers in the street, 32 x 32 in colour",
        train: 73_257,
        test: 26_032,
        made: false,
    },
    Known {
        name: "ud-english-ewt",
        description: "English web texts with universal POS tags, UD 2.16",
        train: 12_544,
        test: 2_077,
        made: false,
    },
];

/// The data set of this name.
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// What the classes of a data set are called; numbers, unless it has names for them.
pub(super) fn class_names(name: &str, classes: usize) -> Vec<String> {
    let clothes = [
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ];
    if name == "fashion-mnist" && classes == clothes.len() {
        return clothes.map(str::to_owned).to_vec();
    }
    (0..classes).map(|class| class.to_string()).collect()
}

/// The folders in which a data set that is not made is looked for, in this order.
pub(super) fn data_folders(name: &str) -> Vec<PathBuf> {
    let nearby = Some(PathBuf::from("data").join(name));
    let shared = Some(PathBuf::from("/usr/share/datasets").join(name));
    [nearby, user_folder(name), shared].into_iter().flatten().collect()
}

/// The user's own folder for a data set, where `bonfire data get` puts it.
pub fn user_folder(name: &str) -> Option<PathBuf> {
    let absolute = |key: &str| std::env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let share = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(share.join("bonfire").join(name))
}

/// The known name that is most like this one; the whole of which this is a part is more so than any other.
pub fn nearest(name: &str) -> &'static str {
    let unlike = |known: &&str| (!known.contains(name), distance(known, name));
    KNOWN.iter().map(|known| known.name).min_by_key(unlike).unwrap_or_default()
}

/// How many letters must be changed, added or left out to turn one word into the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &goal) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != goal);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        let check = |name, expect| assert_eq!(nearest(name), expect, "{name}");
        check("digit", "digits");
        check("mnsit", "mnist");
        check("fashion_mnist", "fashion-mnist");
        check("fashionmnist", "fashion-mnist");
        check("review", "reviews");
        check("fashion", "fashion-mnist");
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
