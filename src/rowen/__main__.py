"""Run the command `rowen` as `python -m rowen`."""

import sys

if __name__ == "__main__":
    # `-m` puts the current folder first in `sys.path`. That folder may be harvested, so plug-ins must not be imported
    # from it. In a checkout, this package itself is imported from there.
    if not sys.flags.safe_path and __file__ != f"{sys.path[0]}/rowen/__main__.py":
        del sys.path[0]
    from rowen.interfaces.cli import main

    main()
