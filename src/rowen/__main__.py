"""`python -m rowen` is the command `rowen`."""

from rowen.cli import main

if __name__ == "__main__":
    main()
