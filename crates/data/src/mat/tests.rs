use super::*;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

/// An element: its tag, its bytes, and what fills it up.
fn element(kind: u32, bytes: &[u8]) -> Vec<u8> {
    let mut element = [kind.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat();
    element.extend(bytes);
    element.resize(element.len().next_multiple_of(8), 0);
    element
}

/// An array as this format writes it, short names inside of their tag.
fn array(name: &str, class: u8, sizes: &[u32], kind: u32, bytes: &[u8]) -> Vec<u8> {
    let sizes: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
    let name = if name.len() <= 4 {
        let mut small = [1, 0, name.len() as u8, 0, 0, 0, 0, 0];
        small[4..4 + name.len()].copy_from_slice(name.as_bytes());
        small.to_vec()
    } else {
        element(1, name.as_bytes())
    };
    let flags = element(6, &[class, 0, 0, 0, 0, 0, 0, 0]);
    element(ARRAY, &[flags, element(5, &sizes), name, element(kind, bytes)].concat())
}

/// An array of bytes.
pub(crate) fn array_of_bytes(name: &str, sizes: &[u32], bytes: &[u8]) -> Vec<u8> {
    array(name, 9, sizes, 2, bytes)
}

/// An array of doubles.
pub(crate) fn array_of_doubles(name: &str, sizes: &[u32], values: &[f64]) -> Vec<u8> {
    array(name, 6, sizes, 9, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

/// A file with these arrays, packed or not.
pub(crate) fn file_of(arrays: &[Vec<u8>], packed: bool) -> Vec<u8> {
    let mut content = b"MATLAB 5.0 MAT-file, made by a test".to_vec();
    content.resize(124, b' ');
    content.extend(b"\x00\x01IM");
    for array in arrays {
        if packed {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(array).unwrap();
            let bytes = encoder.finish().unwrap();
            content.extend([PACKED.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat());
            content.extend(bytes);
        } else {
            content.extend(array);
        }
    }
    content
}

fn read_bytes<const N: usize>(content: &[u8], names: [&str; N]) -> Result<[Array; N]> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mat");
    std::fs::write(&path, content).unwrap();
    read(&path, names)
}

#[test]
fn arrays_are_found_by_name_packed_or_not() {
    let arrays = [
        array("text", 4, &[1, 2], 4, b"hi"),
        array_of_doubles("longer name", &[2, 1], &[1.5, -2.0]),
        array_of_bytes("X", &[3, 2], &[1, 2, 3, 4, 5, 6]),
        element(9, &[0; 16]),
        array("n", 12, &[2], 5, &[255, 255, 255, 255, 7, 0, 0, 0]),
    ];
    for packed in [false, true] {
        let [n, x, longer] = read_bytes(&file_of(&arrays, packed), ["n", "X", "longer name"]).unwrap();
        let path = Path::new("a.mat");
        assert_eq!(n.numbers(path).unwrap(), [-1.0, 7.0]);
        assert_eq!(x.sizes, [3, 2]);
        assert_eq!(x.numbers(path).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(x.into_bytes(path).unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(longer.numbers(path).unwrap(), [1.5, -2.0]);
        assert!(longer.into_bytes(path).unwrap_err().to_string().contains("expected bytes (uint8)"));
    }
}

#[test]
fn wrong_files_are_refused_with_a_reason() {
    let check = |content: &[u8], expect: &str| {
        let read = read_bytes(content, ["X"]).and_then(|[x]| x.numbers(Path::new("a.mat")));
        let error = read.unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    let good = file_of(&[array_of_bytes("X", &[3], &[1, 2, 3])], false);
    check(b"", "its header cannot be read");
    check(&[b' '; 128], "not a MATLAB file of level 5");
    let mut newer = b"MATLAB 7.3 MAT-file".to_vec();
    newer.resize(200, 0);
    check(&newer, "save it with -v7");
    let mut other_end = good.clone();
    other_end[126..128].copy_from_slice(b"MI");
    check(&other_end, "with the highest byte first");
    check(&good[..128], "holds no array X");
    check(&good[..good.len() - 8], "truncated: 3 bytes were promised, 0 follow");
    check(&good[..140], "breaks off in a tag");
    check(&file_of(&[array_of_bytes("X", &[4], &[1, 2, 3])], false), "the sizes [4], but 3 bytes");
    check(&file_of(&[array_of_bytes("X", &[u32::MAX; 8], &[1])], true), "but 1 bytes of numbers");
    check(&file_of(&[array_of_bytes("X", &[1; 33], &[1])], true), "expected at most 128");
    check(&file_of(&[array("X", 9, &[1], 18, &[1])], true), "unknown type 18");
    let packed = file_of(&[array_of_bytes("X", &[3], &[1, 2, 3])], true);
    check(&packed[..packed.len() - 20], "breaks off");
}
