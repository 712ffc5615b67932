"""`python -m rowen` is the command `rowen`."""

import sys

if __name__ == "__main__":
    # `-m` puts the current folder first, which may be a harvested one: plug-ins must not be imported from it. In a
    # checkout, this package itself comes from it.
    if not sys.flags.safe_path and __file__ != f"{sys.path[0]}/rowen/__main__.py":
        del sys.path[0]
    from rowen.interfaces.cli import main

    main()
