use anyhow::Result;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::terminal::print;

/// Print what a shell needs to complete the arguments of this program.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
                  bonfire completions bash > ~/.local/share/bash-completion/completions/bonfire\n  \
                  bonfire completions zsh > ~/.zfunc/_bonfire       with ~/.zfunc in fpath\n  \
                  bonfire completions fish > ~/.config/fish/completions/bonfire.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<()> {
    print(script(super::Arguments::command(), args.shell).trim_end())
}

fn script(mut command: Command, shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "bonfire", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_learns_every_command_that_is_shown() {
        let command = super::super::Arguments::command();
        for shell in Shell::value_variants() {
            let script = script(command.clone(), *shell);
            for shown in command.get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(script.contains(shown.get_name()), "{shell}: {}", shown.get_name());
            }
        }
    }
}
