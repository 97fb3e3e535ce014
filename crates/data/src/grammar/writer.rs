//! The rules of the grammar. Each keeps one promise: the words before a word decide its tag.

use super::TaggedSentence;
use super::lexicon::{Lexicon, VerbKind, with_ed, with_ing, with_s};
use bonfire_learn::random::Random;

/// The shortest and the longest sentence, in words.
const LENGTHS: std::ops::RangeInclusive<usize> = 4..=30;

/// Beyond this many words a sentence takes no more optional parts.
const ROOM: usize = 16;

/// Whether one or many do something, which decides the form of the verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    One,
    Many,
}

use Number::{Many, One};

/// Writes one sentence, word by word, from the rules below.
pub(super) struct GrammarWriter<'a> {
    pub(super) lexicon: &'a Lexicon,
    pub(super) random: Random,
    sentence: TaggedSentence,
}

impl<'a> GrammarWriter<'a> {
    pub(super) fn new(lexicon: &'a Lexicon, random: Random) -> Self {
        Self { lexicon, random, sentence: TaggedSentence::default() }
    }

    /// Writes until a sentence has a length that we want.
    pub(super) fn write(mut self) -> TaggedSentence {
        loop {
            self.sentence();
            if LENGTHS.contains(&self.sentence.words.len()) {
                return self.finish();
            }
            self.sentence = TaggedSentence::default();
        }
    }

    pub(super) fn say(&mut self, word: impl Into<String>, tag: &str) {
        self.sentence.words.push(word.into());
        self.sentence.tags.push(tag.to_owned());
    }

    pub(super) fn say_one(&mut self, words: &[&str], tag: &str) {
        let word = *self.random.pick(words);
        self.say(word, tag);
    }

    /// True with this probability, as long as the sentence is not yet long.
    pub(super) fn perhaps(&mut self, probability: f32) -> bool {
        self.random.chance(probability) && self.sentence.words.len() < ROOM
    }

    /// Writes names and the first word with a capital letter.
    fn finish(self) -> TaggedSentence {
        let mut sentence = self.sentence;
        for (place, (word, tag)) in sentence.words.iter_mut().zip(&sentence.tags).enumerate() {
            if place == 0 || tag == "PROPN" || word == "i" {
                word[..1].make_ascii_uppercase();
            }
        }
        sentence
    }

    fn sentence(&mut self) {
        match self.random.below(100) {
            0..58 => self.statement(),
            58..70 => self.question(),
            70..80 => self.command(),
            80..88 => self.existence(),
            _ => self.condition(),
        }
    }

    fn statement(&mut self) {
        if self.random.chance(0.18) {
            match self.random.below(3) {
                0 => self.adverb(),
                1 => self.say_one(&["well", "yes", "oh", "no"], "INTJ"),
                _ => self.place(),
            }
            self.say(",", "PUNCT");
        }
        self.clause();
        if self.perhaps(0.3) {
            self.say(",", "PUNCT");
            if self.random.chance(0.5) {
                self.say_one(&["and", "but", "or"], "CCONJ");
            } else {
                self.say_one(&["because", "while", "although", "after", "before", "since", "until"], "SCONJ");
            }
            self.clause();
        }
        self.say_one(&[".", ".", ".", "!"], "PUNCT");
    }

    fn question(&mut self) {
        if self.random.chance(0.3) {
            self.say_one(&["why", "when", "where", "how"], "ADV");
        }
        let auxiliary = self.random.below(3);
        let number = if self.random.chance(0.5) { One } else { Many };
        match (auxiliary, number) {
            (0, One) => self.say("does", "AUX"),
            (0, Many) => self.say("do", "AUX"),
            (1, _) => self.say("did", "AUX"),
            _ => self.modal(),
        }
        self.subject(Some(number));
        self.infinitive();
        self.say("?", "PUNCT");
    }

    fn command(&mut self) {
        match self.random.below(4) {
            0 => self.say("please", "INTJ"),
            1 => {
                self.say("do", "AUX");
                self.say("not", "PART");
            }
            _ => {}
        }
        self.infinitive();
        self.say_one(&[".", "!"], "PUNCT");
    }

    fn existence(&mut self) {
        self.say("there", "PRON");
        if self.random.chance(0.5) {
            self.say_one(&["is", "was"], "AUX");
            self.say_one(&["a", "no", "another"], "DET");
            self.noun_with_adjectives(One, true);
        } else {
            self.say_one(&["are", "were"], "AUX");
            self.say_one(&["some", "many", "no", "few"], "DET");
            self.noun_with_adjectives(Many, true);
        }
        self.place();
        self.say(".", "PUNCT");
    }

    fn condition(&mut self) {
        self.say_one(&["if", "after", "before", "since", "until", "because"], "SCONJ");
        self.clause();
        self.say(",", "PUNCT");
        self.clause();
        self.say(".", "PUNCT");
    }

    fn clause(&mut self) {
        let number = self.subject(None);
        self.predicate(number);
        if self.perhaps(0.12) {
            self.say_one(&["and", "or"], "CCONJ");
            self.predicate(number);
        }
    }

    fn adverb(&mut self) {
        let adverb = *self.random.pick(&self.lexicon.adverbs);
        self.say(adverb, "ADV");
    }

    pub(super) fn preposition(&mut self) {
        self.say_one(&["in", "on", "with", "near", "under", "for", "from", "at", "by", "of"], "ADP");
    }

    fn place(&mut self) {
        self.preposition();
        self.object();
    }

    fn modal(&mut self) {
        self.say_one(&["will", "can", "may", "must", "should", "would", "could"], "AUX");
    }

    /// What the subject does, in a form that fits its number.
    pub(super) fn predicate(&mut self, number: Number) {
        if self.random.chance(0.1) {
            self.adverb();
        }
        match self.random.below(100) {
            0..38 => self.finite(number),
            38..54 => {
                self.modal();
                self.negation();
                self.infinitive();
            }
            54..64 => self.perfect(number),
            64..72 => {
                self.say(if number == One { "does" } else { "do" }, "AUX");
                self.say("not", "PART");
                self.infinitive();
            }
            _ => self.being(number),
        }
    }

    fn negation(&mut self) {
        if self.random.chance(0.2) {
            self.say("not", "PART");
        }
    }

    fn finite(&mut self, number: Number) {
        let (stem, kind) = self.verb();
        let past = self.random.chance(0.35);
        let form = match number {
            _ if past => with_ed(stem),
            One => with_s(stem),
            Many => stem.to_owned(),
        };
        self.say(form, "VERB");
        self.complement(kind);
    }

    fn infinitive(&mut self) {
        if self.random.chance(0.1) {
            self.say_one(&["have", "do", "like"], "VERB");
            return self.object();
        }
        let (stem, kind) = self.verb();
        self.say(stem, "VERB");
        self.complement(kind);
    }

    fn perfect(&mut self, number: Number) {
        match number {
            One => self.say_one(&["has", "had"], "AUX"),
            Many => self.say_one(&["have", "had"], "AUX"),
        }
        self.negation();
        let (stem, kind) = self.verb();
        self.say(with_ed(stem), "VERB");
        self.complement(kind);
    }

    fn being(&mut self, number: Number) {
        match number {
            One if self.follows(&["he", "she", "it"]) && self.random.chance(0.4) => self.say("'s", "AUX"),
            One => self.say_one(&["is", "was"], "AUX"),
            Many => self.say_one(&["are", "were"], "AUX"),
        }
        self.negation();
        match self.random.below(100) {
            0..40 => {
                let (stem, kind) = self.verb();
                self.say(with_ing(stem), "VERB");
                self.complement(kind);
            }
            40..58 => {
                let stem = self.lexicon.verb(VerbKind::Plain, &mut self.random);
                self.say(with_ed(stem), "VERB");
                if self.random.chance(0.6) {
                    self.place();
                }
            }
            58..66 => {
                self.say("like", "ADP");
                self.object();
            }
            66..78 => self.either("ADJ"),
            78..90 => {
                self.say_one(&["very", "too", "quite", "so"], "ADV");
                let adjective = *self.random.pick(&self.lexicon.adjectives);
                self.say(adjective, "ADJ");
            }
            _ => self.say_one(&["here", "there", "home"], "ADV"),
        }
    }

    fn follows(&self, words: &[&str]) -> bool {
        self.sentence.words.last().is_some_and(|last| words.contains(&last.as_str()))
    }

    fn verb(&mut self) -> (&'static str, VerbKind) {
        let kind = match self.random.below(100) {
            0..14 => VerbKind::Moving,
            14..28 if self.sentence.words.len() < ROOM => VerbKind::Wanting,
            28..38 if self.sentence.words.len() < ROOM => VerbKind::Saying,
            _ => VerbKind::Plain,
        };
        (self.lexicon.verb(kind, &mut self.random), kind)
    }

    fn complement(&mut self, kind: VerbKind) {
        match kind {
            VerbKind::Saying => {
                self.say("that", "SCONJ");
                self.clause();
            }
            VerbKind::Wanting => {
                self.say("to", "PART");
                self.infinitive();
            }
            VerbKind::Moving => {
                self.say("to", "ADP");
                self.object();
            }
            VerbKind::Plain => {
                if self.random.chance(0.7) {
                    self.object();
                }
                self.circumstance();
            }
        }
    }

    /// How, where or when it is done.
    fn circumstance(&mut self) {
        match self.random.below(100) {
            0..16 => self.either("ADV"),
            16..26 => self.adverb(),
            26..44 => self.place(),
            44..52 => {
                self.say_one(&["after", "before", "since", "until"], "ADP");
                let number = if self.random.chance(0.5) { One } else { Many };
                self.thing(number);
            }
            52..58 => self.say_one(&["there", "here", "home", "well"], "ADV"),
            _ => {}
        }
    }
}
