"""The subcommands of `elmo-tf`: their options, and what they call."""
