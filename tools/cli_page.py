"""Write all commands and options into `docs/reference/cli.md`: `python -m tools.cli_page`."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from stoker.doors.cli.command import Command, Group
from stoker.doors.cli.root import COMMANDS, root

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
MARK = "<!-- what follows is written by tools/cli_page.py -->\n"


def redrawn(page: str) -> str:
    """The page with all that comes after the mark written anew."""
    head, mark, _ = page.partition(MARK)
    if not mark:
        sys.exit(f"{PAGE.name} has no mark to write after; put this line in: {MARK}")
    return head + mark + "".join(_sections())


def commands() -> Iterator[tuple[str, Command | Group]]:
    """Every command by its full name, those of a group after the group."""
    for _, context, command in _walk():
        yield context.command_path, command


def _walk() -> Iterator[tuple[str, click.Context, Command | Group]]:
    top = click.Context(root, info_name="stoker")
    for title, section in COMMANDS.items():
        for name in section:
            yield from ((title, *each) for each in _family(root, name, top))


def _family(
    group: click.Group, name: str, parent: click.Context
) -> Iterator[tuple[click.Context, Command | Group]]:
    command = group.get_command(parent, name)
    assert isinstance(command, Command | Group)
    context = click.Context(command, info_name=name, parent=parent)
    yield context, command
    if isinstance(command, Group):
        for member in command.list_commands(context):
            yield from _family(command, member, context)


def _sections() -> Iterator[str]:
    before = ""
    for title, context, command in _walk():
        if title != before:
            yield f"\n## {title}\n"
            before = title
        yield f"\n### {context.command_path}\n\n{_help(command)}\n"
        yield f"\n```\n{_usage(context, command)}\n```\n"
        if isinstance(command, Command):
            yield _options(context, command)
        examples = "\n".join(command.examples)
        yield f"\n```sh\n{examples}\n```\n"


def _help(command: click.Command) -> str:
    """The help's paragraphs; one that begins with \\b keeps its lines."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    kept = [p.removeprefix("\b\n") for p in paragraphs]
    return "\n\n".join(
        f"```\n{text}\n```" if paragraph.startswith("\b") else text
        for paragraph, text in zip(paragraphs, kept, strict=True)
    )


def _usage(context: click.Context, command: click.Command) -> str:
    return " ".join([context.command_path, *command.collect_usage_pieces(context)])


def _options(context: click.Context, command: click.Command) -> str:
    options = [each for each in command.params if isinstance(each, click.Option)]
    records = [record for each in options if (record := each.get_help_record(context))]
    rows = "".join(f"| `{option}` | {_cell(text)} |\n" for option, text in records)
    return f"\n| option | |\n|---|---|\n{rows}" if rows else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Rewrite the page in place."""
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
