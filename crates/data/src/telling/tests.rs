use super::*;
use crate::Texts;
use bonfire_learn::Shape;

fn texts(texts: &[&str], classes: &[&str]) -> Dataset {
    let words = || texts.iter().flat_map(|text| text.split(' '));
    let vocabulary = Vocabulary::count(words(), 1, usize::MAX);
    let mut starts = vec![0];
    texts.iter().for_each(|text| starts.push(starts[starts.len() - 1] + text.split(' ').count() as u32));
    let numbers: Vec<u32> = words().map(|word| vocabulary.number(word)).collect();
    let labels = (0..texts.len()).map(|i| (i % classes.len()) as u8).collect();
    let samples = Arc::new(Samples::Texts(Texts { starts, words: numbers.into(), labels }));
    Dataset {
        name: "made".to_owned(),
        shape: Shape::Texts { words: vocabulary.len(), classes: classes.len() },
        train: Arc::clone(&samples),
        test: samples,
        dev: None,
        vocabulary: Some(vocabulary),
        classes: classes.iter().map(|&class| class.to_owned()).collect(),
    }
}

fn rows(values: &[[f32; 2]]) -> Dataset {
    let bytes: Vec<u8> = values.as_flattened().iter().flat_map(|value| value.to_le_bytes()).collect();
    let images = Images {
        height: 1,
        width: 1,
        channels: 2,
        pixels: crate::Pixels::new(bytes, 0, 0, PixelFormat::Floats),
        labels: (0..values.len()).map(|i| (i % 2) as u8).collect(),
        ..Images::default()
    };
    let samples = Arc::new(Samples::Images(images));
    let mut data = Dataset { train: Arc::clone(&samples), test: samples, ..texts(&["a b"], &["no", "yes"]) };
    data.vocabulary = None;
    data.fit_shape();
    data
}

fn source(min_frequency: usize, max_words: usize) -> Source {
    Source { min_frequency, max_words, ..Source::new("made") }
}

#[test]
fn words_of_all_are_numbered_by_how_often_all_have_them() {
    let head = texts(&["zebra zebra zebra"], &["x"]);
    let one = texts(&["a a a b b rare", "c c"], &["x"]);
    let two = texts(&["b b d d d d", "c c once"], &["x"]);
    let check = |min_frequency, max_words, expect: &[&str], lone| {
        let source = source(min_frequency, max_words);
        let mut tellings = vec![one.telling(&source), two.telling(&source)];
        for _ in 0..2 {
            let agreed = head.agree(&source, &tellings).expect("an agreement");
            let vocabulary = agreed.form.vocabulary.as_ref().expect("words");
            let words: Vec<&str> =
                (2..vocabulary.len() as u32).map(|number| vocabulary.word(number)).collect();
            assert_eq!((words.as_slice(), agreed.lone_words), (expect, lone));
            assert_eq!(agreed.form.shape, Shape::Texts { words: expect.len() + 2, classes: 1 });
            tellings.reverse();
        }
    };
    // What is rare with everybody is told by nobody; words of equal frequency go by the alphabet.
    check(2, 100, &["b", "c", "d", "a"], 2);
    check(1, 100, &["b", "c", "d", "a", "once", "rare"], 4);
    // Nobody tells more words than there may be.
    check(2, 2, &["b", "d"], 1);
    check(9, 100, &[], 0);
}

#[test]
fn classes_are_those_of_all_in_the_usual_order() {
    let check = |head: &[&str], others: &[&[&str]], expect: &[&str]| {
        let lists: Vec<Vec<String>> = std::iter::once(&head)
            .chain(others)
            .map(|list| list.iter().map(|&class| class.to_owned()).collect())
            .collect();
        assert_eq!(classes(lists.iter()).expect("classes"), expect);
        assert_eq!(classes(lists.iter().rev()).expect("classes"), expect);
    };
    check(&["T-shirt", "Bag"], &[&["T-shirt"]], &["T-shirt", "Bag"]);
    check(&["cat", "dog"], &[&["ape", "dog"]], &["ape", "cat", "dog"]);
    check(&["2", "10"], &[&["3", "10"]], &["2", "3", "10"]);
    check(&[], &[&[]], &[]);
    let many: Vec<Vec<String>> =
        (0..2).map(|i| (0..200).map(|class| (class + 100 * i).to_string()).collect()).collect();
    let error = classes(many.iter()).expect_err("too many").to_string();
    assert!(error.contains("300 different classes together, at most 256"), "{error}");
}

#[test]
fn scales_are_those_of_all_samples_together() {
    let source = source(2, 10);
    let (one, two) = ([[1.0, 5.0], [2.0, 5.0], [6.0, 5.0]], [[100.0, 5.0], [-4.0, 5.0]]);
    let all = rows(&[one.as_slice(), two.as_slice()].concat());
    let Samples::Images(all) = &*all.train else { panic!("rows") };
    let expect = Moments { mean: vec![21.0, 5.0], deviation: vec![39.6232, 1.0] };
    assert_eq!(all.moments().mean, expect.mean);
    let tellings = [rows(&one).telling(&source), rows(&two).telling(&source)];
    for tellings in [tellings.clone(), [tellings[1].clone(), tellings[0].clone()]] {
        let form = rows(&[[0.0, 0.0]]).agree(&source, &tellings).expect("an agreement").form;
        let Samples::Images(form) = &*form.train else { panic!("rows") };
        let mut whole = all.clone();
        whole.normalize(&all.moments());
        for (found, expect) in form.scales.as_flattened().iter().zip(whole.scales.as_flattened()) {
            assert!((found - expect).abs() < 1e-6, "{:?}: {:?}", form.scales, whole.scales);
        }
    }
}

#[test]
fn what_is_told_is_read_and_nothing_else() {
    let source = source(1, 3);
    let good = texts(&["a a b", "c d"], &["no", "yes"]).telling(&source);
    let read = |telling: &Telling| Telling::read(&mut telling.to_bytes().expect("bytes").as_slice(), 3);
    assert_eq!(read(&good).expect("a telling"), good);
    assert_eq!(good.words.len(), 3);
    let table = rows(&[[1.0, 2.0]]).telling(&source);
    assert_eq!(read(&table).expect("a telling"), table);
    let check = |change: &dyn Fn(&mut Telling), expect: &str| {
        let mut wrong = good.clone();
        change(&mut wrong);
        let error = read(&wrong).expect_err(expect).to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(&|one| one.words.push(("e".to_owned(), 1)), "the number of words is 4, expected 0 to 3");
    check(&|one| one.words[0].0.clear(), "a word is empty");
    check(&|one| one.words[0].0 = "two\nlines".to_owned(), "a word has a line break");
    check(&|one| one.words[0].0 = "x".repeat(1025), "a word is too long");
    check(&|one| one.words[0].0 = one.words[1].0.clone(), "tells of a word twice");
    check(&|one| one.words[0].1 = 0, "how often a word is there is 0");
    check(&|one| one.classes = vec!["c".to_owned(); 300], "the number of classes is 300");
    check(&|one| one.samples = 0, "the number of samples is 0");
    check(&|one| one.moments = vec![[f64::NAN, 1.0]], "has a mean of NaN");
    check(&|one| one.moments = vec![[0.0, -1.0]], "a deviation of -1");
}

#[test]
fn who_has_another_kind_is_told() {
    let source = source(1, 10);
    let (words, table) = (texts(&["a"], &["x"]), rows(&[[1.0, 2.0]]));
    assert_eq!(words.telling(&source).misfit(&words.form()), None);
    assert_eq!(table.telling(&source).misfit(&table.form()), None);
    let misfit = table.telling(&source).misfit(&words).expect("a misfit");
    assert_eq!(misfit, "its data are rows of 2 numbers, but those of the head are texts with classes");
    let mut few = table.telling(&source);
    few.moments.pop();
    assert_eq!(few.misfit(&table), Some("it tells of 1 channels, not 2".to_owned()));
}
