"""The command line, `tradewind`. Commands load when they are called: `--help` must be quick."""
