//! The first stage done by others gives what it gives here.

use super::*;
use crate::prepare::{ChunkMapper, Collector, InputShare};
use std::collections::BTreeMap;

/// Maps shares as others would, one after the other, and hands on their lines in so many pieces, each of them sorted.
fn map(
    shares: &[InputShare],
    rules: &Rules,
    pieces: usize,
    collector: &mut Collector<'_>,
) -> Result<(), Error> {
    let mut lines: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new(); pieces];
    for share in shares {
        // A share travels as JSON.
        let share: InputShare = serde_json::from_str(&serde_json::to_string(share).unwrap()).unwrap();
        let mut mapper = ChunkMapper::new(rules)?;
        share.read(rules, |chunk| {
            let add = |line: &str| *lines[line.len() % pieces].entry(line.to_owned()).or_default() += 1;
            mapper.map(&chunk, add).is_ok()
        })?;
    }
    for (line, count) in lines.iter().flatten() {
        collector.add(line.as_bytes(), *count)?;
    }
    Ok(())
}

#[test]
fn what_others_map_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("parts")).unwrap();
    fs::write(path("parts/a.json"), many(30_000)).unwrap();
    fs::write(path("parts/b.json.gz"), gzip(many(5000).as_bytes())).unwrap();
    fs::write(path("parts/c.csv"), "stars,text\n5,\"good, very\"\n9,bad\n").unwrap();
    let here = preparation(&[&path("parts")], &path("here"));
    let report = run(&here).unwrap();
    for pieces in [1, 3] {
        let out = path(&format!("there-{pieces}"));
        let there = Preparation { out: out.clone(), ..here.clone() };
        // A first try that fails leaves nothing that counts.
        let failed = there.run_elsewhere(
            &Meter::default(),
            |_| {},
            5,
            |shares, collector| {
                assert!(shares.len() >= 3, "{}", shares.len());
                map(&shares[..2], &here.rules, pieces, collector)?;
                Err(Error::mismatch("the others are gone"))
            },
        );
        assert_eq!(failed.unwrap_err().to_string(), "the others are gone");
        assert!(!out.exists());
        let found = there.run_elsewhere(
            &Meter::default(),
            |_| {},
            5,
            |shares, collector| {
                map(&shares[..1], &here.rules, pieces, collector)?;
                collector.forget();
                map(&shares, &here.rules, pieces, collector)
            },
        );
        let found: PrepareReport = found.unwrap();
        assert_eq!(PrepareReport { seconds: report.seconds, mb_per_s: report.mb_per_s, ..found }, report);
        assert!(content(&out) == content(&here.out), "{pieces}");
    }
    // A piece that comes twice, or not at all.
    let odd = Preparation { out: path("odd"), ..here.clone() };
    for pieces in [1, 3] {
        let found = odd.run_elsewhere(
            &Meter::default(),
            |_| {},
            5,
            |shares, collector| {
                map(&shares, &here.rules, pieces, collector)?;
                assert!(collector.is_whole());
                map(&shares[1..2], &here.rules, pieces, collector)?;
                assert!(!collector.is_whole());
                collector.forget();
                map(&shares, &here.rules, pieces, collector)?;
                collector.add(b"good\t5", 1)?;
                assert!(!collector.is_whole());
                Ok::<(), Error>(())
            },
        );
        assert!(found.unwrap_err().to_string().contains("texts came twice, or not at all"));
    }
    let strict = Preparation { is_strict: true, out: path("strict"), ..here.clone() };
    let expect = run(&strict).unwrap_err().to_string();
    let found = strict.run_elsewhere(
        &Meter::default(),
        |_| {},
        5,
        |shares, collector| map(&shares, &here.rules, 1, collector),
    );
    assert_eq!(found.unwrap_err().to_string(), expect);
}
