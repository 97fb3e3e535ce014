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
    assert_eq!((images.channels, images.pixels.as_ref().len()), (3, 40 * 18));
    assert_eq!(images.pixels.image(30, 18)[..3], [250, 0, 10]);
    for i in [33, 12, 25] {
        write(folder.path(), &format!("train/a/{i}.png"), &PNG[..40]);
        let error = load_from(folder.path(), None).unwrap_err().to_string();
        let first = if i == 33 { 33 } else { 12 };
        assert!(error.contains(&format!("train/a/{first}.png: is not a whole PNG")), "{error}");
    }
}

const LARGER: &[u8] = include_bytes!("../../fixtures/larger.png");

/// At least 300 photographs of 500×375 a second and core: run by hand with `--ignored`.
#[test]
#[ignore = "takes a folder of photographs"]
fn photographs_are_decoded_fast() {
    let folder = std::env::var("BONFIRE_TEST_PHOTOGRAPHS").expect("a folder of JPEGs");
    let files: Vec<Labelled> = files(Path::new(&folder)).into_iter().map(|file| (file, 0)).collect();
    let start = std::time::Instant::now();
    let count = decode::all(&files, Some(Resize([224, 224]))).unwrap().pixels.len() / (224 * 224 * 3);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let speed = count as f64 / start.elapsed().as_secs_f64() / cores as f64;
    eprintln!("{speed:.0} photographs a second and core");
    assert!(speed > 300.0, "{speed} a second and core");
}
