use super::*;
use crate::Samples;

/// A red-to-black image of 2×3 places that Pillow saved.
const PNG: &[u8] = include_bytes!("../../fixtures/small.png");
const GRAY_PNG: &[u8] = include_bytes!("../../fixtures/gray.png");
const PALETTE_PNG: &[u8] = include_bytes!("../../fixtures/palette.png");
const JPEG: &[u8] = include_bytes!("../../fixtures/small.jpg");

fn write(folder: &Path, name: &str, content: &[u8]) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn load_from(folder: &Path, resize: Option<Resize>) -> Result<Dataset> {
    Source { resize, ..Source::new(folder.to_str().unwrap()) }.load()
}

fn of(samples: &Samples) -> &Images {
    match samples {
        Samples::Images(images) => images,
        _ => panic!("images"),
    }
}

#[test]
fn what_pillow_saved_is_read() {
    let check = |bytes: &[u8], is_gray: bool, expect: &[u8], tolerance: u8| {
        let found = decode(bytes).unwrap();
        assert_eq!((found.height, found.width, found.is_gray), (2, 3, is_gray));
        for (found, expect) in found.pixels.iter().zip(expect) {
            assert!(found.abs_diff(*expect) <= tolerance, "{found}, not {expect}");
        }
    };
    let color = [250, 0, 10, 200, 50, 20, 150, 100, 30, 100, 150, 40, 50, 200, 50, 0, 250, 60];
    check(PNG, false, &color, 0);
    let gray: Vec<u8> = (0..6).flat_map(|i| [40 * i; 3]).collect();
    check(GRAY_PNG, true, &gray, 0);
    check(PALETTE_PNG, false, &[[9, 8, 7], [1, 2, 3]].concat().repeat(3), 0);
    check(JPEG, true, &[128; 18], 2);
}

#[test]
fn folders_are_classes() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..10 {
        write(folder.path(), &format!("cats/{i}.png"), PNG);
        write(folder.path(), &format!("dogs/{i}.JPG"), JPEG);
    }
    write(folder.path(), "dogs/notes.txt", b"not an image");
    write(folder.path(), ".hidden/0.png", b"");
    let data = load_from(folder.path(), None).unwrap();
    assert_eq!(data.classes, ["cats", "dogs"]);
    assert_eq!((data.train.len(), data.test.len()), (18, 2));
    assert_eq!(of(&data.train).size(), [2, 3, 3]);
    let data = load_from(folder.path(), Some(Resize([4, 4]))).unwrap();
    assert_eq!(of(&data.train).size(), [4, 4, 3]);
}

#[test]
fn halves_and_a_part_to_validate_on() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["train", "test", "val"] {
        write(folder.path(), &format!("{part}/a/0.png"), GRAY_PNG);
        write(folder.path(), &format!("{part}/b/0.png"), GRAY_PNG);
    }
    let source = Source::new(folder.path().to_str().unwrap());
    let data = source.load().unwrap();
    assert_eq!((data.train.len(), data.test.len(), of(&data.train).channels), (2, 2, 1));
    assert_eq!(source.load_validation(&data).unwrap().expect("a part").len(), 2);
}

#[test]
fn wrong_folders_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let check = |expect: &str| {
        let error = load_from(folder.path(), None).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check("no data found");
    write(folder.path(), "train/a/0.png", PNG);
    check("has `train`, but no folder `test`");
    write(folder.path(), "test/b/0.png", PNG);
    check("test/b: the training half has no class of this name; it has a");
    std::fs::remove_dir_all(folder.path().join("test/b")).unwrap();
    write(folder.path(), "test/a/0.png", &PNG[..40]);
    check("test/a/0.png: is not a whole PNG");
    write(folder.path(), "test/a/0.png", b"hello");
    check("test/a/0.png: is neither PNG nor JPEG");
    write(folder.path(), "test/a/0.png", LARGER);
    check("is 3×3, but");
}

#[test]
fn one_in_colour_makes_all_so_and_the_first_wrong_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..40 {
        write(folder.path(), &format!("train/a/{i:02}.png"), GRAY_PNG);
    }
    write(folder.path(), "test/a/00.png", GRAY_PNG);
    let data = load_from(folder.path(), None).unwrap();
    assert_eq!(of(&data.train).channels, 1);
    write(folder.path(), "train/a/30.png", PNG);
    let data = load_from(folder.path(), None).unwrap();
    let images = of(&data.train);
    assert_eq!((images.channels, images.labels.len()), (3, 40));
    assert_eq!(images.pixels.image(30, 18)[..3], [250, 0, 10]);
    assert_eq!(images.pixels.image(31, 18)[..6], [0, 0, 0, 40, 40, 40]);
    for i in [33, 12, 25] {
        write(folder.path(), &format!("train/a/{i}.png"), &PNG[..40]);
        let error = load_from(folder.path(), None).unwrap_err().to_string();
        let first = if i == 33 { 33 } else { 12 };
        assert!(error.contains(&format!("train/a/{first}.png: is not a whole PNG")), "{error}");
    }
}

const LARGER: &[u8] = include_bytes!("../../fixtures/larger.png");

/// A file that looks whole and is not, and one that changes: found when its image is wanted, and named.
#[test]
fn what_cannot_be_decoded_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..10 {
        write(folder.path(), &format!("train/a/{i}.png"), PNG);
        write(folder.path(), &format!("test/a/{i}.png"), PNG);
    }
    let mut spoilt = PNG.to_vec();
    let middle = spoilt.windows(4).position(|name| name == b"IDAT").unwrap() + 6;
    spoilt[middle..middle + 4].fill(0xFF);
    write(folder.path(), "train/a/3.png", &spoilt);
    let data = load_from(folder.path(), None).unwrap();
    let mut batch = bonfire_learn::Batch::default();
    data.train.fill(&mut batch, &[0, 1, 2, 4]);
    assert!(data.train.failure().is_none());
    data.train.fill(&mut batch, &[5, 3, 0, 6]);
    let failure = |samples: &Samples| {
        let (number, error) = samples.failure().expect("a failure");
        (number, error.to_string())
    };
    let (number, reason) = failure(&data.train);
    assert!(number == 3 && reason.contains("train/a/3.png: is not a whole PNG"), "{number}: {reason}");
    write(folder.path(), "test/a/7.png", LARGER);
    data.test.fill(&mut batch, &[7]);
    let (number, reason) = failure(&data.test);
    assert!(number == 7 && reason.contains("test/a/7.png: has changed since the run began"), "{reason}");
}

/// Files that are sent elsewhere are decoded there, to the same images; and what is damaged is named there, too.
#[test]
fn files_travel_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..20 {
        write(folder.path(), &format!("a/{i:02}.png"), if i % 2 == 0 { PNG } else { GRAY_PNG });
        write(folder.path(), &format!("b/{i:02}.png"), LARGER);
    }
    let sent = |data: &Dataset| {
        let mut bytes = Vec::new();
        crate::pack::write(data, &mut bytes).unwrap();
        (crate::pack::read(&mut &bytes[..]).unwrap(), bytes)
    };
    let mut data = load_from(folder.path(), Some(Resize([4, 5]))).unwrap();
    data.hold_out(crate::Validation::Part(0.25), 7).unwrap();
    let (there, bytes) = sent(&data);
    let largest = 40 * LARGER.len().max(PNG.len()) + 40 * 20;
    assert!(bytes.len() < largest, "{} bytes, not those of decoded images", bytes.len());
    assert!(of(&there.train).pixels.is_encoded() && there.train.effort() == crate::Effort::Wait);
    for (here, there) in [(&data.train, &there.train), (&data.test, &there.test)] {
        let (here, there) = (of(here), of(there));
        assert_eq!((here.size(), &here.labels), (there.size(), &there.labels));
        for number in 0..here.labels.len() {
            assert_eq!(here.pixels.image(number, 60), there.pixels.image(number, 60));
        }
    }
    assert_eq!(sent(&there).1, bytes, "so that data here and there can be compared");
    let chosen = of(&data.train).files().nth(5).unwrap().name();
    write(folder.path(), &chosen, &[&PNG[..50], &[0xFF; 9], b"IEND"].concat());
    let (there, _) = sent(&data);
    there.train.look_at(4);
    assert!(there.train.failure().is_none());
    there.train.look_at(5);
    let (number, error) = there.train.failure().expect("a failure");
    assert!(
        number == 5 && error.to_string().starts_with(&format!("{chosen}: is not a whole PNG")),
        "{error}"
    );
}

/// What is kept and what is decoded again are the same.
#[test]
fn memory_for_decoded_images_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..10 {
        write(folder.path(), &format!("train/a/{i}.png"), if i % 2 == 0 { PNG } else { GRAY_PNG });
    }
    let files = labelled(&folder.path().join("train"), &["a".to_owned()]).unwrap();
    let [plenty, _] = Album::open([&files, &[]], None).unwrap();
    let [little, _] = Album::open([&files, &[]], None).unwrap();
    little.keep_at_most(4 * 18);
    for _ in 0..2 {
        for number in 0..10 {
            assert_eq!(plenty.image(number), little.image(number));
        }
    }
    let kept = |album: &Album| (0..10).filter(|&number| album.is_kept(number)).count();
    assert_eq!((kept(&plenty), kept(&little)), (10, 4));
}
