"""`python -m stoker` is the command line."""

from stoker.doors.cli import main

if __name__ == "__main__":
    main()
