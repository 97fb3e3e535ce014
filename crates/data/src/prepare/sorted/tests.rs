use super::*;
use crate::prepare::sorter::Sorter;
use bonfire_learn::random::Random;
use std::collections::BTreeMap;

/// Texts that share long beginnings, and many of which are equal.
fn text(random: &mut Random) -> String {
    let words = ["great", "greatly", "a", "aa", "it's", "product"];
    let mut text = "common beginning ".repeat(random.below(6));
    for _ in 0..=random.below(3) {
        text.push_str(words[random.below(words.len())]);
        text.push(' ');
    }
    text.trim_end().to_owned()
}

fn write(path: &Path, texts: &[(String, u8)]) -> SortedRun {
    let mut sorter = Sorter::new(1 << 20);
    for (text, rating) in texts {
        let start = sorter.letters.len();
        sorter.letters.extend_from_slice(text.as_bytes());
        sorter.add(start, *rating);
    }
    let mut writer = RunWriter::create(path).unwrap();
    sorter.drain(&mut writer).unwrap();
    assert!(sorter.is_empty());
    writer.finish().unwrap();
    SortedRun::open(path).unwrap()
}

fn merged(runs: &[SortedRun], stretch: Stretch<'_>) -> Vec<(String, Ratings)> {
    let mut merge = Merge::open(runs, stretch).unwrap();
    let mut found = Vec::new();
    while let Some((text, ratings)) = merge.next().unwrap() {
        found.push((String::from_utf8(text.to_vec()).unwrap(), ratings));
    }
    found
}

#[test]
fn many_runs_are_one_in_order_and_every_text_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::at(3, &[]);
    let mut expect: BTreeMap<String, Ratings> = BTreeMap::new();
    let mut runs = Vec::new();
    for number in 0..7 {
        let texts: Vec<(String, u8)> =
            (0..number * 100).map(|_| (text(&mut random), random.below(6) as u8)).collect();
        for (text, rating) in &texts {
            expect.entry(text.clone()).or_default().add(&Ratings::one(*rating));
        }
        runs.push(write(&folder.path().join(format!("run-{number}")), &texts));
    }
    let expect: Vec<(String, Ratings)> = expect.into_iter().collect();
    assert_eq!(merged(&runs, Stretch::default()), expect);
    for at in ["", "a", "common beginning", "great", "zzz"] {
        let mut both = merged(&runs, Stretch { from: None, to: Some(at) });
        assert!(both.iter().all(|(text, _)| text.as_str() < at));
        both.extend(merged(&runs, Stretch { from: Some(at), to: None }));
        assert_eq!(both, expect, "cut at {at:?}");
    }
}

/// Runs larger than what stands between two entries of an index.
#[test]
fn stretches_together_are_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let texts = |seed: u64| {
        let mut random = Random::at(seed, &[]);
        let beginning = "the same beginning that is longer than a key of an index is allowed to be by us ";
        let text = move |i: usize| {
            let text = if i.is_multiple_of(3) { beginning } else { "" };
            (format!("{text}{} {}", random.below(50_000), "x".repeat(60)), 5)
        };
        (0..40_000).map(text).collect::<Vec<_>>()
    };
    let runs: Vec<SortedRun> =
        (0..3).map(|seed| write(&folder.path().join(format!("run-{seed}")), &texts(seed))).collect();
    assert!(runs.iter().all(|run| run.index.len() > 3), "{}", runs[0].index.len());
    let whole = merged(&runs, Stretch::default());
    for count in [1, 2, 3, 10, 100] {
        let cuts = cuts(&runs, count);
        assert!(cuts.len() < count && cuts.is_sorted() && (count == 1 || !cuts.is_empty()), "{cuts:?}");
        let ends = cuts.iter().map(|cut| Some(cut.as_str())).chain([None]);
        let mut parts = Vec::new();
        let mut from = None;
        for to in ends {
            parts.extend(merged(&runs, Stretch { from, to }));
            from = to;
        }
        assert!(parts == whole, "in {count} stretches");
    }
}
