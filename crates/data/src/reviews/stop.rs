//! The words that every text has.

/// The English stop words of NLTK, with "get", "would", "product" and "em", which product reviews have just as often.
/// By the alphabet, because they are searched for.
#[rustfmt::skip]
const STOP_WORDS: &[&str] = &[
    "a", "about", "above", "after", "again", "against", "ain", "all", "am", "an", "and", "any", "are",
    "aren", "aren't", "as", "at", "be", "because", "been", "before", "being", "below", "between", "both",
    "but", "by", "can", "couldn", "couldn't", "d", "did", "didn", "didn't", "do", "does", "doesn",
    "doesn't", "doing", "don", "don't", "down", "during", "each", "em", "few", "for", "from", "further",
    "get", "had", "hadn", "hadn't", "has", "hasn", "hasn't", "have", "haven", "haven't", "having", "he",
    "her", "here", "hers", "herself", "him", "himself", "his", "how", "i", "if", "in", "into", "is",
    "isn", "isn't", "it", "it's", "its", "itself", "just", "ll", "m", "ma", "me", "mightn", "mightn't",
    "more", "most", "mustn", "mustn't", "my", "myself", "needn", "needn't", "no", "nor", "not", "now",
    "o", "of", "off", "on", "once", "only", "or", "other", "our", "ours", "ourselves", "out", "over",
    "own", "product", "re", "s", "same", "shan", "shan't", "she", "she's", "should", "should've",
    "shouldn", "shouldn't", "so", "some", "such", "t", "than", "that", "that'll", "the", "their",
    "theirs", "them", "themselves", "then", "there", "these", "they", "this", "those", "through", "to",
    "too", "under", "until", "up", "ve", "very", "was", "wasn", "wasn't", "we", "were", "weren",
    "weren't", "what", "when", "where", "which", "while", "who", "whom", "why", "will", "with", "won",
    "won't", "would", "wouldn", "wouldn't", "y", "you", "you'd", "you'll", "you're", "you've", "your",
    "yours", "yourself", "yourselves",
];

/// Whether a word says nothing about what a text means. Upper and lower case are one.
pub(crate) fn is_stop_word(word: &str) -> bool {
    let is_lower = !word.bytes().any(|byte| byte.is_ascii_uppercase());
    let find = |word: &str| STOP_WORDS.binary_search(&word).is_ok();
    if is_lower { find(word) } else { find(&word.to_ascii_lowercase()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_found() {
        assert!(STOP_WORDS.is_sorted());
        let check = |word, expect| assert_eq!(is_stop_word(word), expect, "{word}");
        check("the", true);
        check("The", true);
        check("wouldn't", true);
        check("em", true);
        check("y", true);
        check("good", false);
        check("", false);
        check("naïve", false);
    }
}
