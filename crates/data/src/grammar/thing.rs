//! The things that a sentence is about: names, pronouns, and nouns with what belongs to them.

use super::lexicon::{VerbKind, with_ed, with_ing, with_s};
use super::writer::GrammarWriter;
use super::writer::Number::{self, Many, One};

impl GrammarWriter<'_> {
    /// Someone or something, in the number asked for or any.
    pub(super) fn subject(&mut self, wanted: Option<Number>) -> Number {
        let number = wanted.unwrap_or(if self.random.chance(0.5) { One } else { Many });
        match (self.random.below(100), number) {
            (0..28, One) => self.say_one(&["he", "she", "it"], "PRON"),
            (0..28, Many) => self.say_one(&["i", "you", "we", "they"], "PRON"),
            (28..48, One) => self.name(),
            (28..36, Many) => {
                self.name();
                self.say("and", "CCONJ");
                self.name();
            }
            _ => self.thing(number),
        }
        number
    }

    pub(super) fn object(&mut self) {
        match self.random.below(100) {
            0..18 => self.say_one(&["him", "her", "it", "them", "us", "me"], "PRON"),
            18..32 => self.name(),
            _ => {
                let number = if self.random.chance(0.6) { One } else { Many };
                self.thing(number);
            }
        }
    }

    pub(super) fn name(&mut self) {
        let name = self.lexicon.name(&mut self.random);
        self.say(name, "PROPN");
    }

    /// A noun with what belongs to it.
    pub(super) fn thing(&mut self, number: Number) {
        let determined = self.determiner(number);
        self.noun_with_adjectives(number, determined);
        if self.perhaps(0.12) {
            self.preposition();
            self.object();
        } else if self.perhaps(0.08) {
            self.say_one(&["that", "who"], "PRON");
            self.predicate(number);
        }
    }

    /// Whether anything was said: many things need no determiner.
    fn determiner(&mut self, number: Number) -> bool {
        match (self.random.below(100), number) {
            (0..45, _) => self.say("the", "DET"),
            (45..60, _) => self.say_one(&["my", "your", "his", "her", "our", "their"], "PRON"),
            (60..68, _) => {
                self.name();
                self.say("'s", "PART");
            }
            (68..74, One) => self.say_one(&["this", "that"], "DET"),
            (68..74, Many) => self.say_one(&["these", "those"], "DET"),
            (74..82, One) => self.say("one", "NUM"),
            (74..82, Many) => {
                self.say_one(&["two", "three", "four", "five", "ten", "12", "20", "100"], "NUM")
            }
            (_, One) => self.say_one(&["a", "every", "each"], "DET"),
            (82..90, Many) => self.say_one(&["some", "all", "many"], "DET"),
            (_, Many) => return false,
        }
        true
    }

    pub(super) fn noun_with_adjectives(&mut self, number: Number, determined: bool) {
        while self.perhaps(0.25) {
            self.adjective(determined);
        }
        if determined && number == One && self.random.chance(0.04) {
            return self.say("one", "NOUN");
        }
        let noun = match self.random.below(100) {
            0..8 if determined && number == One => self.lexicon.name_noun(&mut self.random),
            8..13 if determined && number == One => *self.random.pick(&["will", "can", "must"]),
            _ => self.lexicon.noun(&mut self.random),
        };
        match number {
            One if determined && self.random.chance(0.06) => self.say(with_ing(noun), "NOUN"),
            One => self.say(noun, "NOUN"),
            Many => self.say(with_s(noun), "NOUN"),
        }
    }

    /// An adjective before a noun. Those that could be adverbs, or forms of verbs, need a determiner before them.
    fn adjective(&mut self, determined: bool) {
        match self.random.below(100) {
            0..25 if determined => self.either("ADJ"),
            25..50 if determined => {
                let stem = self.lexicon.verb(VerbKind::Plain, &mut self.random);
                self.say(with_ed(stem), "ADJ");
            }
            _ => {
                let adjective = *self.random.pick(&self.lexicon.adjectives);
                self.say(adjective, "ADJ");
            }
        }
    }

    pub(super) fn either(&mut self, tag: &str) {
        let word = *self.random.pick(&self.lexicon.either);
        self.say(word, tag);
    }
}
