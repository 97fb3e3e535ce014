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

mod with_reader;
