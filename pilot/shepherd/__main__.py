"""Start the shepherd from its folder (``python -I -S FOLDER``): the packages above stay unread."""

import os
import sys

if __name__ == "__main__":
    # The folder above comes last: its ``platform`` must not hide that of the standard library.
    sys.path.append(os.path.dirname(sys.path.pop(0)))

    from shepherd.run import main  # type: ignore[import-not-found]

    main()
