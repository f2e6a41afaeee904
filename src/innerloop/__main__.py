"""The command `innerloop`, also as `python -m innerloop`.

Ctrl-C ends it without a word as long as it imports what it needs, which takes seconds; from then on
the verbs decide.
"""

import signal


def start() -> None:
    """Run the command line in a process of its own."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from innerloop.cli.main import main
    from innerloop.cli.streams import keep_writing, show_notices

    keep_writing()
    show_notices()
    main()


if __name__ == "__main__":  # processes that are started beside this one import it too
    start()
