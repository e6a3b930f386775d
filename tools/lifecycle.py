"""Draw the lifecycle table into `docs/lifecycle.md`: `python -m tools.lifecycle`."""

import re
import sys
from pathlib import Path

from stoker.kernel import lifecycle

PAGE = Path(__file__).resolve().parent.parent / "docs" / "lifecycle.md"
BLOCK = re.compile(r"^```mermaid\n.*?^```\n", re.DOTALL | re.MULTILINE)


def redrawn(page: str) -> str:
    """The page with its Mermaid block replaced by the table as it is now."""
    text, count = BLOCK.subn(lambda _: lifecycle.picture(), page, count=1)
    if not count:
        sys.exit(f"{PAGE.name} has no Mermaid block to replace; add an empty one where it belongs.")
    return text


def main() -> None:
    """Rewrite the page in place."""
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
