"""`python -m kubexm` is the `kubexm` command."""

from kubexm.cli.main import main

main()
