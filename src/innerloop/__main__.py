"""`python -m innerloop` is the command `innerloop`."""

from innerloop.cli.main import main

if __name__ == "__main__":  # processes that are started beside this one import it too
    main()
