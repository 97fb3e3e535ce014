//! How a made review says what it thinks.
//!
//! Praise is said with good words or with bad words denied, nearly as often one as the other; blame likewise. Counting
//! words therefore says little, and a reader must notice which word each "not", "never" and "but" belongs to.

use super::Review;
use bonfire_learn::random::Random;

/// How often the stars 1 to 5 are given, in percent.
const STARS: [usize; 5] = [8, 5, 9, 23, 55];

/// How often an opinion is said by denying its opposite.
const DENIAL: f32 = 0.42;

/// A kind of goods: its name, what it is called in a text, and what one can like or dislike in it.
struct Category {
    name: &'static str,
    items: &'static [&'static str],
    aspects: &'static [&'static str],
}

const CATEGORIES: [Category; 6] = [
    Category {
        name: "Books",
        items: &["book", "novel", "story", "guide", "paperback"],
        aspects: &[
            "plot",
            "ending",
            "style",
            "cover",
            "print",
            "first chapter",
            "hero",
            "language",
            "translation",
        ],
    },
    Category {
        name: "Kitchen",
        items: &["pan", "knife", "kettle", "blender", "toaster"],
        aspects: &["handle", "lid", "blade", "coating", "size", "weight", "switch", "finish", "cord"],
    },
    Category {
        name: "Electronics",
        items: &["camera", "headset", "radio", "charger", "keyboard", "tablet"],
        aspects: &["battery", "screen", "sound", "cable", "picture", "menu", "software", "signal", "manual"],
    },
    Category {
        name: "Garden",
        items: &["hose", "mower", "rake", "shovel", "sprinkler"],
        aspects: &["grip", "motor", "nozzle", "blade", "wheel", "paint", "assembly", "frame"],
    },
    Category {
        name: "Toys",
        items: &["puzzle", "doll", "train", "kite", "game", "robot"],
        aspects: &["box", "colour", "design", "rules", "wheel", "instructions", "parts", "idea"],
    },
    Category {
        name: "Music",
        items: &["album", "record", "single", "concert disc"],
        aspects: &["voice", "opening track", "bass", "mix", "cover", "production", "rhythm", "booklet"],
    },
];

const GOOD: &[&str] = &[
    "good",
    "great",
    "nice",
    "solid",
    "excellent",
    "lovely",
    "useful",
    "sturdy",
    "clear",
    "reliable",
    "beautiful",
    "impressive",
    "brilliant",
    "pleasant",
    "fantastic",
    "clever",
];

const BAD: &[&str] = &[
    "bad",
    "poor",
    "cheap",
    "flimsy",
    "terrible",
    "awful",
    "useless",
    "weak",
    "confusing",
    "ugly",
    "boring",
    "disappointing",
    "horrible",
    "dull",
    "annoying",
    "shoddy",
];

/// What a thing does that one is glad of, and what one fears.
const LUCK: &[&str] = &["worked", "impressed me", "surprised me nicely", "helped", "pleased my family"];
const MISHAPS: &[&str] =
    &["broke", "failed", "let me down", "fell apart", "caused trouble", "stopped working"];

const STRONG: &[&str] = &["very", "really", "absolutely", "extremely", "so", "truly"];
const MILD: &[&str] = &["quite", "fairly", "rather", "somewhat", "pretty"];

/// What brands are called.
const SYLLABLES: &[&str] =
    &["ka", "lo", "mi", "ro", "ve", "so", "ta", "ni", "bu", "fe", "du", "ga", "zi", "pol", "ter", "lux"];

/// Sentences that say nothing about the stars.
const ASIDES: &[&str] = &[
    "I bought it for my sister",
    "It arrived on a Monday",
    "I ordered it two weeks ago",
    "This was a gift for my father",
    "I have had it for 3 months now",
    "We use it at home",
    "My neighbour has the same one",
    "It came in a brown box",
    "I read other reviews before I ordered",
];

/// Writes one review.
pub(super) fn write(random: &mut Random) -> Review {
    let stars = draw_stars(random);
    let category = random.pick(&CATEGORIES);
    let mut writer = ReviewWriter { random, category, strong: stars == 1 || stars == 5, text: String::new() };
    writer.review(stars);
    Review { text: writer.text, stars, category: category.name.to_owned() }
}

fn draw_stars(random: &mut Random) -> u8 {
    let mut percent = random.below(100);
    for (stars, share) in (1..).zip(STARS) {
        if percent < share {
            return stars;
        }
        percent -= share;
    }
    5
}

/// How many opinions are voiced, and how many of them are blame.
fn blame(stars: u8, random: &mut Random) -> (usize, usize) {
    let opinions = 3 + random.below(3);
    let blame = match stars {
        1 => opinions,
        2 => opinions - 1,
        3 => opinions.div_ceil(2),
        4 => 1,
        _ => 0,
    };
    (opinions, blame)
}

struct ReviewWriter<'a> {
    random: &'a mut Random,
    category: &'static Category,
    /// Whether the writer is at one of the ends of the scale, and speaks so.
    strong: bool,
    text: String,
}

impl ReviewWriter<'_> {
    fn review(&mut self, stars: u8) {
        let (opinions, blamed) = blame(stars, self.random);
        let mut praises: Vec<bool> = (0..opinions).map(|i| i >= blamed).collect();
        self.random.shuffle(&mut praises);
        for praise in praises {
            if self.random.chance(0.3) {
                let aside = self.aside();
                self.sentence(aside);
            }
            let opinion = self.opinion(praise);
            self.sentence(opinion);
        }
        if self.random.chance(0.85) {
            let verdict = self.verdict(stars >= 4);
            self.sentence(verdict);
        }
    }

    fn sentence(&mut self, words: String) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        let mut letters = words.chars();
        self.text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        self.text.push_str(letters.as_str());
        self.text.push_str(if self.random.chance(0.1) { "!" } else { "." });
    }

    /// A sentence that says nothing about the stars; some name one of very many brands, the rare words of this
    /// language.
    fn aside(&mut self) -> String {
        let item = *self.random.pick(self.category.items);
        match self.random.below(6) {
            0 => format!("before this I had a {}", self.brand()),
            1 => format!("my old {item} was made by {}", self.brand()),
            _ => (*self.random.pick(ASIDES)).to_owned(),
        }
    }

    fn brand(&mut self) -> String {
        let mut syllable = || *self.random.pick(SYLLABLES);
        let mut brand = [syllable(), syllable(), syllable()].concat();
        brand[..1].make_ascii_uppercase();
        brand
    }

    fn opinion(&mut self, praise: bool) -> String {
        match self.random.below(100) {
            0..50 => self.quality(praise),
            50..70 => self.event(praise),
            70..88 => self.contrast(praise),
            _ => self.hearsay(praise),
        }
    }

    /// "The lid is good", "the lid is not good", "I would not say the lid is bad".
    fn quality(&mut self, praise: bool) -> String {
        let subject = self.subject();
        if !self.random.chance(DENIAL) {
            return format!("{subject} is {}", self.described(praise));
        }
        let word = self.described(!praise);
        match self.random.below(5) {
            0 => format!("{subject} is not {word}"),
            1 => format!("{subject} isn't {word} at all"),
            2 => format!("I would not say {subject} is {word}"),
            3 => format!("{subject} is anything but {word}"),
            _ => format!("nobody could call it {word}"),
        }
    }

    /// "It never broke", "it broke twice".
    fn event(&mut self, praise: bool) -> String {
        let item = *self.random.pick(self.category.items);
        let often = *self.random.pick(&["twice", "again", "after a week", "on the first day", "in the end"]);
        if self.random.chance(DENIAL) {
            let happened = *self.random.pick(if praise { MISHAPS } else { LUCK });
            return match self.random.below(3) {
                0 => format!("the {item} never {happened}"),
                1 => format!("not once was it so that it {happened}"),
                _ => format!("I can't say that the {item} {happened}"),
            };
        }
        let happened = *self.random.pick(if praise { LUCK } else { MISHAPS });
        format!("the {item} {happened} {often}")
    }

    /// What comes after "but" is what counts.
    fn contrast(&mut self, praise: bool) -> String {
        let before = self.described(!praise);
        let after = self.quality(praise);
        match self.random.below(3) {
            0 => format!("I expected something {before}, but {after}"),
            1 => format!("it looked {before} at first, yet {after}"),
            _ => format!("my friend finds it {before}; however, {after}"),
        }
    }

    /// What others say counts only if the writer agrees.
    fn hearsay(&mut self, praise: bool) -> String {
        let agrees = self.random.chance(0.5);
        let claim = self.described(praise == agrees);
        match (agrees, self.random.below(2)) {
            (true, 0) => format!("people call it {claim} and I agree"),
            (true, _) => format!("they say it is {claim} and they are right"),
            (false, 0) => format!("people call it {claim} and I disagree"),
            (false, _) => format!("they say it is {claim} and they are wrong"),
        }
    }

    fn verdict(&mut self, praise: bool) -> String {
        let yes: &[&str] = &[
            "I would recommend it",
            "I would buy it again",
            "I would not hesitate to buy it again",
            "I don't regret it",
            "there is nothing to complain about",
            "I will not send it back",
        ];
        let no: &[&str] = &[
            "I would not recommend it",
            "I would not buy it again",
            "I would hesitate to buy it again",
            "I do regret it",
            "there is a lot to complain about",
            "I will send it back",
        ];
        let verdict = *self.random.pick(if praise { yes } else { no });
        let opening = *self.random.pick(&["all in all, ", "in short, ", "so ", ""]);
        format!("{opening}{verdict}")
    }

    fn subject(&mut self) -> String {
        match self.random.below(4) {
            0 => "it".to_owned(),
            1 => format!("the {}", self.random.pick(self.category.items)),
            _ => format!("the {}", self.random.pick(self.category.aspects)),
        }
    }

    fn described(&mut self, good: bool) -> String {
        let word = *self.random.pick(if good { GOOD } else { BAD });
        if self.random.chance(0.4) {
            return word.to_owned();
        }
        let strong = self.random.chance(if self.strong { 0.85 } else { 0.25 });
        format!("{} {word}", self.random.pick(if strong { STRONG } else { MILD }))
    }
}
