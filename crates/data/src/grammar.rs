//! `grammar`: tagged sentences of an English-like language that are made, not downloaded.
//!
//! Half of the words have more than one tag ("the walk", "to walk"; "walks to", "wants to"), so a table of each
//! word's usual tag is wrong for one word in seven. What comes before a word always decides, so a network that reads
//! from left to right can be right nearly everywhere: only new words are left to guess.

mod lexicon;
mod thing;
mod writer;

use crate::conllu::TaggedSentence;
use bonfire_learn::random::Random;
use lexicon::Lexicon;
use std::collections::HashMap;
use writer::GrammarWriter;

/// Makes `count` sentences. Sentence `i` depends on the seed and `i` alone.
pub fn make(count: usize, seed: u64) -> Vec<TaggedSentence> {
    let lexicon = Lexicon::new();
    (0..count).map(|i| GrammarWriter::new(&lexicon, Random::at(seed, &[i as u64])).write()).collect()
}

/// How often each word's most frequent tag is right: the accuracy that a tagger has to beat. The tags are counted in
/// `train`, upper and lower case being one, and tried on `test`; a word that `train` lacks gets the most frequent tag
/// of all.
pub fn most_frequent_tag_accuracy(train: &[TaggedSentence], test: &[TaggedSentence]) -> f64 {
    fn pairs(sentences: &[TaggedSentence]) -> impl Iterator<Item = (String, &str)> {
        let all = sentences.iter().flat_map(|sentence| sentence.words.iter().zip(&sentence.tags));
        all.map(|(word, tag)| (word.to_lowercase(), tag.as_str()))
    }
    let mut by_word: HashMap<String, HashMap<&str, usize>> = HashMap::new();
    let mut overall: HashMap<&str, usize> = HashMap::new();
    for (word, tag) in pairs(train) {
        *by_word.entry(word).or_default().entry(tag).or_default() += 1;
        *overall.entry(tag).or_default() += 1;
    }
    // Equal counts go by name, so that the figure is the same each time.
    let usual = |counts: &HashMap<&str, usize>| {
        counts
            .iter()
            .max_by_key(|&(&tag, &count)| (count, tag))
            .map_or_else(String::new, |(tag, _)| (*tag).to_owned())
    };
    let fallback = usual(&overall);
    let usual: HashMap<&str, String> =
        by_word.iter().map(|(word, counts)| (word.as_str(), usual(counts))).collect();
    let (mut right, mut all) = (0, 0usize);
    for (word, tag) in pairs(test) {
        right += usize::from(usual.get(word.as_str()).unwrap_or(&fallback) == tag);
        all += 1;
    }
    right as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::random::mix;

    #[test]
    fn a_seed_makes_the_same_sentences_for_ever() {
        let text = |sentence: &TaggedSentence| sentence.words.join(" ");
        let sentences = make(200, 7);
        assert_eq!(text(&sentences[0]), "Do not connect Nina under the safe fast far names .");
        let bytes = sentences.iter().flat_map(|sentence| sentence.words.iter().chain(&sentence.tags));
        let hash = bytes.flat_map(|word| word.bytes()).fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
        assert_eq!(hash, 9_268_135_300_335_068_293);
        assert_eq!(make(50, 7), sentences[..50]);
        assert_ne!(make(50, 8), sentences[..50]);
    }

    #[test]
    fn sentences_have_the_promised_form() {
        let sentences = make(2000, 1);
        for sentence in &sentences {
            assert_eq!(sentence.words.len(), sentence.tags.len());
            assert!((4..=30).contains(&sentence.words.len()), "{sentence:?}");
            assert_eq!(sentence.tags.last().unwrap(), "PUNCT");
        }
        let tags: std::collections::BTreeSet<_> =
            sentences.iter().flat_map(|sentence| &sentence.tags).collect();
        assert_eq!(tags.len(), 15, "{tags:?}");
        let words: std::collections::BTreeSet<_> =
            sentences.iter().flat_map(|sentence| &sentence.words).collect();
        assert!(words.len() > 800, "only {} words", words.len());
    }

    #[test]
    fn the_usual_tag_of_each_word_does_not_suffice() {
        let accuracy = most_frequent_tag_accuracy(&make(8000, 1), &make(1000, 2));
        assert!((0.80..0.88).contains(&accuracy), "{accuracy}");
    }

    #[test]
    fn the_usual_tag_is_counted_in_training_alone() {
        let sentence = |text: &str| TaggedSentence {
            words: text.split(' ').map(|pair| pair[..1].to_owned()).collect(),
            tags: text.split(' ').map(|pair| pair[1..].to_owned()).collect(),
        };
        let check = |train: &str, test: &str, expect: f64| {
            assert_eq!(
                most_frequent_tag_accuracy(&[sentence(train)], &[sentence(test)]),
                expect,
                "{train} | {test}"
            );
        };
        check("aX aX aY", "aX aY", 0.5);
        check("aX aX aY", "AX", 1.0);
        check("aX aX bY", "cX cY", 0.5);
    }
}
