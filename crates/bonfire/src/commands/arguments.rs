use std::ffi::OsString;

/// The arguments with `-nr`, which course assignments have and which no parser takes for one flag, spelt out.
pub(crate) fn spelt_out(arguments: impl IntoIterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut is_over = false;
    arguments.into_iter().map(move |argument| {
        is_over |= argument == "--";
        match argument.to_str().and_then(|text| text.strip_prefix("-nr")) {
            Some("") if !is_over => "--node-rank".into(),
            Some(rest) if !is_over && rest.starts_with('=') => format!("--node-rank{rest}").into(),
            _ => argument,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_flag_of_two_letters_is_rewritten() {
        let check = |line: &str, expect: &str| {
            let found: Vec<OsString> = spelt_out(line.split(' ').map(OsString::from)).collect();
            assert_eq!(found, expect.split(' ').collect::<Vec<_>>(), "{line}");
        };
        check("bonfire train run.yml -n 3 -nr 1", "bonfire train run.yml -n 3 --node-rank 1");
        check("bonfire train -nr=1", "bonfire train --node-rank=1");
        check("bonfire train -n 3 -nrx --out -nr.yml", "bonfire train -n 3 -nrx --out -nr.yml");
        check("bonfire train -- -nr", "bonfire train -- -nr");
    }
}
