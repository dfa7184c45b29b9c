"""The command line's first lines: what takes a moment to import is imported where it can be
interrupted quietly.
"""

import sys


def main() -> None:
    try:
        from prudent.cli.main import main as command_line

        command_line()
    except KeyboardInterrupt:  # before there was anything to save
        sys.exit(130)


if __name__ == "__main__":  # environments in processes of their own import this as well
    main()
