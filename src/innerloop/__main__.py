"""`python -m innerloop` is the command `innerloop`."""

from innerloop.cli.main import main

main()
