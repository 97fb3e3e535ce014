use std::ffi::OsString;

use bonfire_run::run_file::of_flag;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags of two letters, which course assignments have and which no parser takes for one flag, and what they mean.
const SHORT: [(&str, &str); 2] = [("-nr", "--node-rank"), ("-np", "--processes")];

/// The arguments with flags of two letters spelt out.
pub(crate) fn spelt_out(arguments: impl IntoIterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut is_over = false;
    arguments.into_iter().map(move |argument| {
        is_over |= argument == "--";
        let found =
            SHORT.iter().find_map(|(short, long)| Some((long, argument.to_str()?.strip_prefix(short)?)));
        match found {
            Some((long, "")) if !is_over => long.into(),
            Some((long, rest)) if !is_over && rest.starts_with('=') => format!("{long}{rest}").into(),
            _ => argument,
        }
    })
}

/// What to say of a flag that other programs have, and that is a key of the run file here.
pub(crate) fn of_other_programs(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let here = (error.kind() == ErrorKind::UnknownArgument).then(|| of_flag(flag))??;
    Some(format!("{flag} is a key of the run file here: {here}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flags_of_two_letters_are_rewritten() {
        let check = |line: &str, expect: &str| {
            let found: Vec<OsString> = spelt_out(line.split(' ').map(OsString::from)).collect();
            assert_eq!(found, expect.split(' ').collect::<Vec<_>>(), "{line}");
        };
        check("bonfire train run.yml -n 3 -nr 1", "bonfire train run.yml -n 3 --node-rank 1");
        check("bonfire train -nr=1", "bonfire train --node-rank=1");
        check("bonfire train -n 3 -np 1 -nr 0", "bonfire train -n 3 --processes 1 --node-rank 0");
        check("bonfire train -n 3 -nrx --out -nr.yml", "bonfire train -n 3 -nrx --out -nr.yml");
        check("bonfire train -- -nr", "bonfire train -- -nr");
    }
}
