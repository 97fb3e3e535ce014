//! The words of the grammar. All open classes inflect regularly, so that a form follows from its stem.

use bonfire_learn::random::Random;

/// Stems that are a noun and a verb alike. Only the words before them tell which.
const BOTH: &str = "
    walk help call look play work talk answer paint plant start doubt attack visit test view cook guard mail order \
    signal record report repair question reward support trust design display damage dance delay demand escape \
    exchange experience favour fear film fire fish float fold force frame gain guess guide hand handle harm head \
    heat hunt influence interest joke judge jump kick kiss knock land laugh lift limit load lock love march measure \
    mention milk mind move name nail note notice number offer pack park pass pause phone picture place point polish \
    practice praise press price print process progress project protest pull push race rain reach request respect \
    rest result return risk roll rule sail sample scale score search shape share shelter shock shout sign smell \
    smile smoke sound space stamp state stay store storm stretch surprise switch taste title touch tour trace track \
    trade train transport treat turn twist use value voice vote wait wash watch water wave whisper whistle wish \
    witness wonder yell rescue colour comfort contact credit curl curve doodle echo finish flower groom";

const NOUNS: &str = "
    house dog cat tree river teacher doctor girl boy friend farmer window door garden street road town village \
    mountain forest bird horse cow apple table chair book letter song king queen soldier sister brother mother father \
    neighbour kitchen bridge tower island engine machine computer lawyer artist student school hospital market museum \
    castle church lamp candle blanket bottle basket bucket ladder mirror pillow pencil ticket wagon violin planet \
    ocean desert valley meadow lemon carrot onion cabbage rabbit tiger lion eagle spider turtle monkey donkey goat \
    captain sailor pirate baker miner singer writer driver poet uncle aunt cousin river farm field barn stable roof";

const VERBS: &str = "
    ask follow remember discover collect compare connect consider contain create deliver describe destroy divide \
    enjoy examine explore gather ignore imagine improve include introduce invent invite join learn listen obey \
    observe obtain own perform prepare prevent protect prove receive reduce reject remain remove repeat replace \
    require save select serve solve suffer survive appear vanish exist belong happen arrive admire";

/// Verbs that go on with "that" and a clause; many are nouns too.
const SAYING: &str =
    "claim believe explain suggest hope promise suspect report announce assume dream argue mention";

/// Verbs that go on with "to" and a verb.
const WANTING: &str = "want hope need promise refuse decide struggle fail attempt offer desire long";

/// Verbs that go on with "to" and a place.
const MOVING: &str = "walk march travel sail move return race wander climb crawl drift rush jump tour";

const ADJECTIVES: &str = "
    small large quiet bright old new young happy sad angry hungry green red blue tall heavy strange ancient gentle \
    brave clever lazy lucky proud rare rich poor ripe rough rude safe sharp shy silent silly simple smooth soft sour \
    steep strong sweet tender thick thin tiny ugly useful vast warm weak weird wet wild wise wooden famous hidden";

/// Adjectives that are adverbs too.
const EITHER: &str =
    "fast hard late early straight deep high low loud daily weekly far close long right wrong";

const ADVERBS: &str = "
    often always never soon now again sometimes rarely suddenly gladly quickly slowly quietly carefully calmly \
    badly nearly hardly simply safely proudly softly";

const NAMES: &str = "
    anna peter maria tom lisa paul emma john sara leo nina oscar vera hugo ida max clara felix london paris berlin \
    vienna oslo madrid rome athens";

/// Names that are nouns too.
const NAME_NOUNS: &str =
    "rose mark grace bill art frank grant drew may dawn penny jack iris olive violet amber";

/// The words of all classes, by class.
#[derive(Debug)]
pub(super) struct Lexicon {
    both: Vec<&'static str>,
    nouns: Vec<&'static str>,
    verbs: Vec<&'static str>,
    saying: Vec<&'static str>,
    wanting: Vec<&'static str>,
    moving: Vec<&'static str>,
    pub adjectives: Vec<&'static str>,
    pub either: Vec<&'static str>,
    pub adverbs: Vec<&'static str>,
    names: Vec<&'static str>,
    name_nouns: Vec<&'static str>,
}

/// What a verb goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VerbKind {
    Plain,
    Saying,
    Wanting,
    Moving,
}

impl Lexicon {
    pub(super) fn new() -> Self {
        let list = |words: &'static str| words.split_whitespace().collect();
        Self {
            both: list(BOTH),
            nouns: list(NOUNS),
            verbs: list(VERBS),
            saying: list(SAYING),
            wanting: list(WANTING),
            moving: list(MOVING),
            adjectives: list(ADJECTIVES),
            either: list(EITHER),
            adverbs: list(ADVERBS),
            names: list(NAMES),
            name_nouns: list(NAME_NOUNS),
        }
    }

    /// The stem of a noun.
    pub(super) fn noun(&self, random: &mut Random) -> &'static str {
        match random.below(100) {
            0..58 => frequent_first(&self.both, random),
            58..70 => {
                self.verb(*random.pick(&[VerbKind::Saying, VerbKind::Wanting, VerbKind::Moving]), random)
            }
            _ => frequent_first(&self.nouns, random),
        }
    }

    /// The stem of a verb.
    pub(super) fn verb(&self, kind: VerbKind, random: &mut Random) -> &'static str {
        match kind {
            VerbKind::Plain if random.chance(0.85) => frequent_first(&self.both, random),
            VerbKind::Plain => frequent_first(&self.verbs, random),
            VerbKind::Saying => any_of(&self.saying, random),
            VerbKind::Wanting => any_of(&self.wanting, random),
            VerbKind::Moving => any_of(&self.moving, random),
        }
    }

    pub(super) fn name(&self, random: &mut Random) -> &'static str {
        if random.chance(0.6) { any_of(&self.name_nouns, random) } else { any_of(&self.names, random) }
    }

    /// A noun that could also be a name.
    pub(super) fn name_noun(&self, random: &mut Random) -> &'static str {
        any_of(&self.name_nouns, random)
    }
}

fn any_of(words: &[&'static str], random: &mut Random) -> &'static str {
    words[random.below(words.len())]
}

/// Picks words early in the list more often, as languages do.
fn frequent_first(words: &[&'static str], random: &mut Random) -> &'static str {
    let place = random.unit();
    words[(place * place * words.len() as f32) as usize]
}

/// The form with `s`: more than one thing, or what one person does now.
pub(super) fn with_s(stem: &str) -> String {
    let hisses = ["s", "x", "z", "ch", "sh"].iter().any(|end| stem.ends_with(end));
    if hisses || stem.ends_with('o') { format!("{stem}es") } else { format!("{stem}s") }
}

/// The form with `ed`.
pub(super) fn with_ed(stem: &str) -> String {
    if stem.ends_with('e') { format!("{stem}d") } else { format!("{stem}ed") }
}

/// The form with `ing`.
pub(super) fn with_ing(stem: &str) -> String {
    match stem.strip_suffix('e') {
        Some(rest) if !rest.ends_with('e') => format!("{rest}ing"),
        _ => format!("{stem}ing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_inflect() {
        let check =
            |stem, expect: [&str; 3]| assert_eq!([with_s(stem), with_ed(stem), with_ing(stem)], expect);
        check("walk", ["walks", "walked", "walking"]);
        check("move", ["moves", "moved", "moving"]);
        check("watch", ["watches", "watched", "watching"]);
        check("echo", ["echoes", "echoed", "echoing"]);
        check("press", ["presses", "pressed", "pressing"]);
    }
}
