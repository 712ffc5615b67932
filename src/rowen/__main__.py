"""`python -m rowen` is the command `rowen`."""

import sys

if __name__ == "__main__":
    # `-m` puts the current folder first, which may be the one that is harvested: what is imported from here on,
    # plug-ins above all, must not come from it. Unless this very package does, in a checkout.
    if not sys.flags.safe_path and __file__ != f"{sys.path[0]}/rowen/__main__.py":
        del sys.path[0]
    from rowen.interfaces.cli import main

    main()
