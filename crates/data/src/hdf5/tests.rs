use super::*;

#[test]
fn files_are_known_by_their_names() {
    let check = |name: &str, expect: bool| assert_eq!(is_named(Path::new(name)), expect, "{name}");
    check("a/result.h5", true);
    check("ip-10.ec2_result.HDF5", true);
    check("result.h5.gz", true);
    check("h5", false);
    check("result.gz", false);
    check("result.csv", false);
}

#[cfg(not(feature = "hdf5"))]
#[test]
fn a_program_without_it_says_how_to_get_it() {
    let error = Source::new("some/result.h5").load().unwrap_err().to_string();
    assert!(error.starts_with("some/result.h5: this program was built without HDF5"), "{error}");
    assert!(error.contains("cargo build --release --features hdf5"), "{error}");
}

#[cfg(feature = "hdf5")]
mod with_reader;
