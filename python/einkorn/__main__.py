"""python -m einkorn: the program ``einkorn``."""
import os
import sys

from ._library import get_program


def main():
    """Replaces this process by the program, with the same arguments."""
    program = get_program()
    sys.stdout.flush()
    os.execv(program, ["einkorn"] + sys.argv[1:])


if __name__ == "__main__":
    main()
