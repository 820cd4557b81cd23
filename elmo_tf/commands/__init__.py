"""The subcommands of `elmo-tf`: one module per subcommand."""
