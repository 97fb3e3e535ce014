use super::*;
use crate::Samples;

/// A `.npy` file as NumPy writes it.
pub(crate) fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [MAGIC, &[1, 0], &length, header.as_bytes(), data].concat()
}

fn write(folder: &Path, name: &str, content: &[u8]) {
    std::fs::write(folder.join(name), content).unwrap();
}

#[test]
fn arrays_become_images_and_rows() {
    let check = |x: Vec<u8>, size: [usize; 3], first: &[f32]| {
        let labels =
            Array::parse(&npy("<i8", "(2, 1)", &[[1, 0, 0, 0, 0, 0, 0, 0], [0; 8]].concat())).unwrap();
        let images = images(&Array::parse(&x).unwrap(), &labels).unwrap();
        assert_eq!((images.size(), &images.labels[..]), (size, &[1, 0][..]));
        let mut drawn = vec![0.0; images.values()];
        images.draw(0, None, &mut drawn);
        assert_eq!(drawn, first);
    };
    let bytes: Vec<u8> = (0..24).map(|byte| byte * 10).collect();
    let unit = |bytes: &[u8]| bytes.iter().map(|&byte| f32::from(byte) * (1.0 / 255.0)).collect::<Vec<f32>>();
    check(npy("|u1", "(2, 2, 2)", &bytes[..8]), [2, 2, 1], &unit(&bytes[..4]));
    check(npy("|u1", "(2, 2, 2, 3)", &bytes), [2, 2, 3], &unit(&bytes[..12]));
    check(
        npy("|u1", "(2, 3, 2, 2)", &bytes),
        [2, 2, 3],
        &unit(&[0, 40, 80, 10, 50, 90, 20, 60, 100, 30, 70, 110]),
    );
    let floats: Vec<u8> = [1.5f32, -2.0, 3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    check(npy("<f4", "(2, 2)", &floats), [1, 1, 2], &[1.5, -2.0]);
}

#[test]
fn a_folder_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for part in ["train", "test", "validation"] {
        write(folder.path(), &format!("x_{part}.npy"), &npy("|u1", "(3, 2, 2)", &[7; 12]));
        write(folder.path(), &format!("y_{part}.npy"), &npy("|u1", "(3,)", &[0, 1, 2]));
    }
    let source = Source::new(folder.path().to_str().unwrap());
    let data = source.load().unwrap();
    assert_eq!((data.train.len(), data.classes.len()), (3, 3));
    let validation = source.load_validation(&data).unwrap().expect("a part");
    assert!(matches!(&*validation, Samples::Images(images) if images.labels == [0, 1, 2]));
}

#[test]
fn wrong_arrays_are_refused() {
    let check = |content: &[u8], expect: &str| {
        let error = Array::parse(content).and_then(|array| images(&array, &array)).unwrap_err();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(b"", "is not a whole array of NumPy");
    check(&npy("|u1", "(4,)", &[1; 3]), "holds 3 bytes of 4");
    check(&npy("<c8", "(1,)", &[1; 8]), "is of the type <c8");
    check(&npy("|u1", "(99999999999, 99999999999)", &[1; 8]), "is not a whole array");
    let fortran = String::from_utf8_lossy(&npy("|u1", "(2, 2)", b"")[10..]).replace("False", "True ");
    let fortran =
        [MAGIC, &[1, 0], &(fortran.len() as u16).to_le_bytes(), fortran.as_bytes(), &[1; 4]].concat();
    check(&fortran, "is in the order of Fortran");
    check(&npy("|u1", "(2, 2, 2, 2, 2)", &[1; 32]), "the labels have the shape [2, 2, 2, 2, 2]");
}

/// Packed and not, as NumPy writes them (`fixtures/images.py`).
#[test]
fn archives_of_numpy_are_read() {
    let load = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
        Source::new(path.to_str().unwrap()).load().unwrap()
    };
    let data = load("small.npz");
    assert_eq!((data.train.len(), data.test.len(), data.classes.len()), (3, 1, 3));
    let data = load("whole.npz");
    assert_eq!((data.train.len(), data.test.len(), data.classes.len()), (18, 2, 2));
}
