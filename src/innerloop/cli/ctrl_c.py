"""Ctrl-C while a verb works: an exception, and remembered, since not all code hands it on."""

import signal
import threading
from types import FrameType


class CtrlC:
    """Whether Ctrl-C was pressed; the handler of SIGINT."""

    def __init__(self) -> None:
        self.pressed = False

    def begin(self) -> None:
        """Take over from Python's own handler, or from none; another program's handler stays."""
        self.pressed = False
        main = threading.current_thread() is threading.main_thread()  # others may not
        if main and signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(signal.SIGINT, self)

    def end(self) -> None:
        """Give back to Python's own handler."""
        if signal.getsignal(signal.SIGINT) is self:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Remember it, and raise KeyboardInterrupt as Python does.

        C code that calls Python may raise an error of its own instead: matplotlib reports an
        invalid matrix.
        """
        self.pressed = True
        signal.default_int_handler(number, frame)


CTRL_C = CtrlC()
"""Of this process."""
