"""Drop the files below some folders from the page cache, as far as one may without being root.

    forget.py FOLDER...

Pages that are not written to disk yet stay, so `sync` comes first.
"""

import os
import sys


def main() -> None:
    os.sync()
    for folder in sys.argv[1:]:
        for parent, _, files in os.walk(folder):
            for file in files:
                number = os.open(os.path.join(parent, file), os.O_RDONLY)
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(number)


if __name__ == "__main__":
    main()
